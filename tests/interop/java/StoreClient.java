import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The unmodified Java client in small steps, for stores that change hands:
 *
 *   send NAMESRV TOPIC body=plain|level:N|delay:MS|recall:MS ...    prints SENT body due-ms id
 *   consume NAMESRV TOPIC GROUP COUNT                               prints GOT body, commits what it took
 *
 * Tags, keys, flag and a property of a message follow from its body. A delay is counted from the start of the sending, and of a level the due time is when it was sent; what is to
 * be recalled is recalled at once.
 */
public final class StoreClient {
    /** For one answer: RocketMQ's three seconds are little on a busy machine. */
    private static final int PATIENCE_MS = 20_000;

    public static void main(String[] args) {
        try {
            if (args[0].equals("send")) {
                send(args[1], args[2], args);
            } else {
                consume(args[1], args[2], args[3], Integer.parseInt(args[4]));
            }
        } catch (Exception failure) {
            failure.printStackTrace();
            System.exit(1);
        }
        System.out.println("DONE");
        System.exit(0);
    }

    private static void send(String nameServer, String topic, String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("store-client");
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(PATIENCE_MS);
        producer.setMqClientApiTimeout(PATIENCE_MS);
        producer.start();
        producer.send(message(topic, "warm-up"));
        long now = System.currentTimeMillis();
        for (int at = 3; at < args.length; at++) {
            String[] asked = args[at].split("=");
            String[] how = asked[1].split(":");
            Message message = message(topic, asked[0]);
            long due = System.currentTimeMillis();
            if (how[0].equals("level")) {
                message.setDelayTimeLevel(Integer.parseInt(how[1]));
            } else if (!how[0].equals("plain")) {
                due = now + Long.parseLong(how[1]);
                message.setDeliverTimeMs(due);
            }
            SendResult result = producer.send(message);
            if (how[0].equals("recall")) {
                producer.recallMessage(topic, result.getRecallHandle());
            }
            System.out.println("SENT " + asked[0] + " " + due + " " + result.getMsgId());
        }
        producer.shutdown();
    }

    @SuppressWarnings("deprecation")
    private static void consume(String nameServer, String topic, String group, int count) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setMqClientApiTimeout(PATIENCE_MS);
        consumer.start();
        List<String> got = new ArrayList<>();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            long offset = Math.max(consumer.fetchConsumeOffset(queue, true), 0);
            while (got.size() < count) {
                PullResult result = consumer.pull(queue, "*", offset, 1);
                offset = result.getNextBeginOffset();
                if (result.getPullStatus() != PullStatus.FOUND) {
                    break;
                }
                for (MessageExt one : result.getMsgFoundList()) {
                    got.add(new String(one.getBody(), StandardCharsets.UTF_8));
                }
            }
            consumer.updateConsumeOffset(queue, offset);
            consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, offset, false);
        }
        consumer.shutdown();
        got.forEach(body -> System.out.println("GOT " + body));
    }

    private static Message message(String topic, String body) {
        Message message = new Message(topic, "a", "key-" + body + " too", body.getBytes(StandardCharsets.UTF_8));
        message.setFlag(body.length());
        message.putUserProperty("colour of it", "grün = " + body);
        return message;
    }
}
