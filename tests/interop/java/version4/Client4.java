import com.alibaba.fastjson.JSON;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The unmodified client of RocketMQ 4.9, for a store that changes hands. Client4 NAMESRV GROUP: a producer (group
 * GROUP-P) that stays until the input ends. A line in, its words separated by tabs:
 *
 *   send TOPIC NAME [key=value ...]      keys: tag, keys, flag, level, size, and p.X for any property X
 *   batch TOPIC NAME COUNT               messages NAME0, NAME1 ... in one request
 *   half TOPIC NAME DECISION             a transaction; its local part decides so
 *   decide NAME DECISION                 answers checks about it so from now on; until then UNKNOW
 *   consume TOPIC, leave                 the group's push consumer comes and goes; at its first try it sends back what
 *                                        begins with "again" at level 3, and what begins with "dead" for good
 *   committed TOPIC                      tells the broker where the group is; where it has it, and where the topic ends
 *   dump TOPIC ...                       all that the topics hold
 *
 * It prints "SENT name queue offset offset-message-id message-id", "CHECKED name decision times", "GOT name tries",
 * "COMMITTED queue offset end", "MESSAGE {json}" and, after each line of the input, "### DONE".
 */
public final class Client4 {
    private static final Map<String, LocalTransactionState> DECISIONS = new ConcurrentHashMap<>();
    private static DefaultMQPushConsumer member;

    public static void main(String[] args) {
        try {
            run(args);
            System.exit(0);
        } catch (Exception failed) {
            failed.printStackTrace();
            System.exit(1);
        }
    }

    private static void run(String[] args) throws Exception {
        System.setProperty("rocketmq.client.rebalance.waitInterval", "1000");
        TransactionMQProducer producer = new TransactionMQProducer(args[1] + "-P");
        producer.setNamesrvAddr(args[0]);
        producer.setPollNameServerInterval(1000);
        producer.setHeartbeatBrokerInterval(1000);
        producer.setTransactionListener(new Decisions());
        producer.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            obey(producer, args, line.split("\t"));
            say("### DONE");
        }
        producer.shutdown();
    }

    private static void obey(TransactionMQProducer producer, String[] args, String[] words) throws Exception {
        switch (words[0]) {
            case "send":
                sent(words[2], producer.send(asked(words)));
                break;
            case "batch":
                List<Message> batch = new ArrayList<>();
                for (int number = 0; number < Integer.parseInt(words[3]); number++) {
                    batch.add(new Message(words[1], "batched", bytes(words[2] + number)));
                }
                sent(words[2], producer.send(batch));
                break;
            case "half":
                Message half = new Message(words[1], "half", "key-" + words[2], bytes(words[2]));
                sent(words[2], producer.sendMessageInTransaction(half, LocalTransactionState.valueOf(words[3])));
                break;
            case "decide":
                DECISIONS.put(words[1], LocalTransactionState.valueOf(words[2]));
                break;
            case "consume":
                member = joined(args[0], args[1], words[1]);
                break;
            case "committed":
                committed(words[1]);
                break;
            case "leave":
                member.shutdown();
                break;
            default:
                dump(args[0], words);
        }
    }

    private static Message asked(String[] words) {
        Message message = new Message(words[1], bytes(words[2]));
        for (int at = 3; at < words.length; at++) {
            int end = words[at].indexOf('=');
            String key = words[at].substring(0, end);
            String value = words[at].substring(end + 1);
            switch (key) {
                case "tag":
                    message.setTags(value);
                    break;
                case "keys":
                    message.setKeys(value);
                    break;
                case "flag":
                    message.setFlag(Integer.parseInt(value));
                    break;
                case "level":
                    message.setDelayTimeLevel(Integer.parseInt(value));
                    break;
                case "size":
                    message.setBody(bytes(words[2] + "-".repeat(Integer.parseInt(value) - words[2].length())));
                    break;
                default:
                    MessageAccessor.putProperty(message, key.substring(2), value);
            }
        }
        return message;
    }

    private static void sent(String name, SendResult result) {
        say("SENT " + name + " " + result.getMessageQueue().getQueueId() + " " + result.getQueueOffset() + " "
            + result.getOffsetMsgId() + " " + result.getMsgId());
    }

    private static DefaultMQPushConsumer joined(String nameServer, String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setPollNameServerInterval(1000);
        consumer.setInstanceName(group + "-" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAwaitTerminationMillisWhenShutdown(2_000);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            String name = text(messages.get(0));
            say("GOT " + name + " " + messages.get(0).getReconsumeTimes());
            context.setDelayLevelWhenNextConsume(name.startsWith("dead") ? -1 : 3);
            boolean fails = messages.get(0).getReconsumeTimes() == 0 && name.matches("(again|dead).*");
            return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    private static void committed(String topic) throws Exception {
        member.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        OffsetStore offsets = member.getDefaultMQPushConsumerImpl().getOffsetStore();
        for (MessageQueue queue : member.fetchSubscribeMessageQueues(topic)) {
            say("COMMITTED " + queue.getQueueId() + " " + offsets.readOffset(queue, ReadOffsetType.READ_FROM_STORE)
                + " " + member.maxOffset(queue));
        }
    }

    @SuppressWarnings("deprecation")
    private static void dump(String nameServer, String[] topics) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("dump");
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("dump-" + System.nanoTime());
        consumer.start();
        for (int at = 1; at < topics.length; at++) {
            for (MessageQueue queue : queues(consumer, topics[at])) {
                long end = consumer.maxOffset(queue);
                for (long offset = consumer.minOffset(queue); offset < end; ) {
                    PullResult result = consumer.pull(queue, "*", offset, 32);
                    offset = result.getNextBeginOffset();
                    if (result.getPullStatus() == PullStatus.FOUND) {
                        result.getMsgFoundList().forEach(one -> say("MESSAGE " + JSON.toJSONString(described(one))));
                    }
                }
            }
        }
        consumer.shutdown();
    }

    @SuppressWarnings("deprecation")
    private static Set<MessageQueue> queues(DefaultMQPullConsumer consumer, String topic) {
        try {
            return consumer.fetchSubscribeMessageQueues(topic);
        } catch (MQClientException unknown) {
            return Set.of(); // nothing was sent there yet
        }
    }

    /** All that a client knows of a message; the broker's clock and the client's own notes are left out. */
    private static Map<String, Object> described(MessageExt one) {
        Map<String, Object> fields = new TreeMap<>();
        Map<String, String> properties = new TreeMap<>(one.getProperties());
        properties.remove("MIN_OFFSET");
        properties.remove("MAX_OFFSET");
        fields.put("topic", one.getTopic());
        fields.put("queue_id", one.getQueueId());
        fields.put("queue_offset", one.getQueueOffset());
        fields.put("phy_offset", one.getCommitLogOffset());
        fields.put("size", one.getStoreSize());
        fields.put("sys_flag", one.getSysFlag());
        fields.put("flag", one.getFlag());
        fields.put("body_crc", one.getBodyCRC());
        fields.put("born_ms", one.getBornTimestamp());
        fields.put("born_host", address(one.getBornHost()));
        fields.put("store_ms", one.getStoreTimestamp());
        fields.put("store_host", address(one.getStoreHost()));
        fields.put("reconsume_times", one.getReconsumeTimes());
        fields.put("prepared_transaction_offset", one.getPreparedTransactionOffset());
        fields.put("properties", properties);
        fields.put("body", Base64.getEncoder().encodeToString(one.getBody()));
        fields.put("id", one.getMsgId());
        return fields;
    }

    private static String address(SocketAddress address) {
        InetSocketAddress socket = (InetSocketAddress) address;
        return socket.getAddress().getHostAddress() + ":" + socket.getPort();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static final class Decisions implements TransactionListener {
        @Override
        public LocalTransactionState executeLocalTransaction(Message message, Object decision) {
            return (LocalTransactionState) decision;
        }

        @Override
        public LocalTransactionState checkLocalTransaction(MessageExt message) {
            LocalTransactionState decision = DECISIONS.getOrDefault(text(message), LocalTransactionState.UNKNOW);
            say("CHECKED " + text(message) + " " + decision + " " + message.getProperty("TRANSACTION_CHECK_TIMES"));
            return decision;
        }
    }
}
