import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageRequestMode;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.AclInfo;
import org.apache.rocketmq.remoting.protocol.body.UserInfo;
import org.apache.rocketmq.remoting.protocol.header.ExportRocksDBConfigToJsonRequestHeader.ConfigType;
import org.apache.rocketmq.remoting.protocol.statictopic.TopicQueueMappingDetail;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.admin.common.AdminToolResult;

/**
 * AdminCalls NAMESRV: the public methods of RocketMQ's DefaultMQAdminExt, called by lines of the input:
 *
 *   methods                              all of them, one a line: name(Type,Type)
 *   name(Type,Type) argument argument    calls it and prints OK and what it returned, or REFUSED and why
 *   abandon TOPIC                        sends a half message that is never decided about; prints its id
 *
 * Arguments are texts without spaces, of which it makes what the parameter is; null and EMPTY are those.
 */
public final class AdminCalls {
    private static final long TIMEOUT_MS = 20_000;
    private static final String FOR_PROGRAM = "(start|shutdown|[gs]et(AdminExtGroup|CreateTopicKey|DefaultMQAdminExtImpl))\\(.*";
    private static DefaultMQAdminExt admin;
    private static DefaultMQProducer producer;

    public static void main(String[] args) throws Exception {
        admin = new DefaultMQAdminExt(TIMEOUT_MS);
        admin.setNamesrvAddr(args[0]);
        admin.setInstanceName("AdminCalls");
        admin.start();
        producer = new DefaultMQProducer("AdminCallsProducer");
        producer.setNamesrvAddr(args[0]);
        producer.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            System.out.println(answer(line.trim().split(" ")) + "\n### DONE");
            System.out.flush();
        }
        System.exit(0);
    }

    private static String answer(String[] words) throws Exception {
        if (words[0].equals("methods")) {
            return methods().keySet().stream().sorted().collect(Collectors.joining("\n"));
        }
        if (words[0].equals("abandon")) {
            Message half = new Message(words[1], "abandoned".getBytes(StandardCharsets.UTF_8));
            MessageAccessor.putProperty(half, MessageConst.PROPERTY_TRANSACTION_PREPARED, "true");
            MessageAccessor.putProperty(half, MessageConst.PROPERTY_PRODUCER_GROUP, "AdminCallsProducer");
            return producer.send(half).getMsgId();
        }
        Method method = methods().get(words[0]);
        Object[] values = new Object[words.length - 1];
        for (int number = 0; number < values.length; number++) {
            values[number] = value(method.getGenericParameterTypes()[number].getTypeName(), words[number + 1]);
        }
        try {
            return result(method.invoke(admin, values)).replace('\n', ' ');
        } catch (InvocationTargetException failed) {
            return "REFUSED " + String.valueOf(failed.getCause()).replace('\n', ' ');
        }
    }

    private static Map<String, Method> methods() {
        Map<String, Method> found = new HashMap<>();
        for (Method one : DefaultMQAdminExt.class.getDeclaredMethods()) {
            String types = Arrays.stream(one.getParameterTypes()).map(Class::getSimpleName).collect(Collectors.joining(","));
            String name = one.getName() + "(" + types + ")";
            if (Modifier.isPublic(one.getModifiers()) && !one.isSynthetic() && !name.matches(FOR_PROGRAM)) {
                found.put(name, one);
            }
        }
        return found;
    }

    private static String result(Object result) {
        if (result instanceof AdminToolResult) {
            AdminToolResult<?> told = (AdminToolResult<?>) result;
            return told.isSuccess() ? result(told.getData()) : "REFUSED " + told.getErrorMsg();
        }
        if (result instanceof RemotingSerializable) {
            return "OK " + RemotingSerializable.toJson(result, false);
        }
        return "OK " + result;
    }

    private static Object value(String type, String text) throws Exception {
        if (text.equals("null")) {
            return null;
        }
        String word = text.equals("EMPTY") ? "" : text;
        List<String> words = new ArrayList<>(Arrays.asList(word.split(",")));
        String name = type.replaceAll("[a-z]+\\.", "").replaceAll("ExportRocksDBConfigToJsonRequestHeader\\W", "");
        switch (name) {
            case "String":
                return word;
            case "int":
                return Integer.valueOf(word);
            case "long":
            case "Long":
                return Long.valueOf(word);
            case "boolean":
            case "Boolean":
                return Boolean.valueOf(word);
            case "List<String>":
                return words;
            case "Set<String>":
                return new HashSet<>(words);
            case "Map<String, String>":
                return new HashMap<String, String>();
            case "Properties":
                Properties properties = new Properties();
                words.forEach(one -> properties.put(one.split("=")[0], one.split("=")[1]));
                return properties;
            case "TopicConfig":
                return new TopicConfig(word, 2, 2, 6);
            case "List<TopicConfig>":
                return words.stream().map(one -> new TopicConfig(one, 2, 2, 6)).collect(Collectors.toList());
            case "SubscriptionGroupConfig":
                return group(word);
            case "List<SubscriptionGroupConfig>":
                return words.stream().map(AdminCalls::group).collect(Collectors.toList());
            case "List<ConfigType>":
                return words.stream().map(ConfigType::valueOf).collect(Collectors.toList());
            case "MessageQueue":
                return new MessageQueue(word.split("@")[0], word.split("@")[1], Integer.parseInt(word.split("@")[2]));
            case "MessageExt":
                return admin.viewMessage(word.split("@")[0], word.split("@")[1]);
            case "MessageRequestMode":
                return MessageRequestMode.valueOf(word);
            case "TopicQueueMappingDetail":
                return new TopicQueueMappingDetail(word, 2, "broker-a", 1);
            case "UserInfo":
                return UserInfo.of(word, "password", "NORMAL");
            case "AclInfo":
                return AclInfo.of("User:" + word, words, words, words, "ALLOW");
            default:
                throw new IllegalArgumentException("no value of " + name);
        }
    }

    private static SubscriptionGroupConfig group(String name) {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(name);
        return config;
    }
}
