import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The Java client under load: sends at once, by levels and for moments, takes some messages back, and consumes. It
 * appends to its history, which exists, and prints the key of each message that was acknowledged.
 *
 * Arguments: name servers, topic, history file, name of the writer, seed. It runs until it is killed.
 */
public final class LoadClient {
    private static final String GROUP = "soak-java";
    private static final int TIMEOUT_MS = 2_000;
    private static final int AHEAD_MS_MAX = 9_000;
    private static final int PAUSE_MS_MAX = 80;
    private static final int UNREACHED_PAUSE_MS = 200;

    private final DefaultMQProducer producer = new DefaultMQProducer(GROUP + "-producer");
    private final FileOutputStream history;
    private final String topic;
    private final String who;
    private final Random draw;
    private int requests;

    private LoadClient(String[] args) throws Exception {
        topic = args[1];
        history = new FileOutputStream(args[2], true);
        who = args[3];
        draw = new Random(Long.parseLong(args[4]));
        producer.setNamesrvAddr(args[0]);
        producer.setPollNameServerInterval(1_000);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        consume(args[0]);
    }

    public static void main(String[] args) throws Exception {
        LoadClient load = new LoadClient(args);
        for (int number = 1; ; number++) {
            load.send(load.who + "-" + number);
            Thread.sleep(load.draw.nextInt(PAUSE_MS_MAX));
        }
    }

    private void send(String key) throws Exception {
        Message message = new Message(topic, "", key, key.getBytes(StandardCharsets.UTF_8));
        MessageClientIDSetter.setUniqID(message);
        String id = MessageClientIDSetter.getUniqID(message);
        String asked = "";
        switch (draw.nextInt(6)) {
            case 0:
                int level = 1 + draw.nextInt(2);
                message.setDelayTimeLevel(level);
                asked = ",\"level\":" + level;
                break;
            case 1:
                long delayMs = 1 + draw.nextInt(AHEAD_MS_MAX);
                message.setDelayTimeMs(delayMs);
                asked = ",\"delay_ms\":" + delayMs;
                break;
            case 2:
                break;
            default:
                long deliverMs = System.currentTimeMillis() + draw.nextInt(AHEAD_MS_MAX);
                message.setDeliverTimeMs(deliverMs);
                asked = ",\"deliver_ms\":" + deliverMs;
        }
        write("send", ",\"message_id\":\"" + id + "\",\"topic\":\"" + topic + "\",\"keys\":[\"" + key + "\"]" + asked);
        try {
            SendResult result = producer.send(message);
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                answer("unknown", id, ",\"reason\":\"" + result.getSendStatus() + "\"");
                return;
            }
            answer("ack", id, ",\"queue\":" + result.getMessageQueue().getQueueId() + ",\"offset\":"
                + result.getQueueOffset());
            System.out.println(key);
            if (result.getRecallHandle() != null && draw.nextInt(8) == 0) {
                recall(id, result.getRecallHandle());
            }
        } catch (MQBrokerException refused) {
            answer("refused", id, ",\"code\":" + refused.getResponseCode());
            Thread.sleep(UNREACHED_PAUSE_MS);
        } catch (Exception unanswered) {
            answer("unknown", id, ",\"reason\":\"" + unanswered.getClass().getSimpleName() + "\"");
            Thread.sleep(UNREACHED_PAUSE_MS);
        }
    }

    private void recall(String id, String handle) throws Exception {
        requests++;
        write("cancel", ",\"op\":" + requests + ",\"topic\":\"" + topic + "\",\"message_id\":\"" + id + "\"");
        String verdict = "unknown";
        try {
            producer.recallMessage(topic, handle);
            verdict = "cancelled";
        } catch (Exception refused) {
            // The client does not tell one that came too late from one without an answer.
        }
        write("verdict", ",\"op\":" + requests + ",\"verdict\":\"" + verdict + "\"");
    }

    private void consume(String nameServers) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(GROUP);
        consumer.setNamesrvAddr(nameServers);
        consumer.setPollNameServerInterval(1_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                received(one);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
    }

    private void received(MessageExt one) {
        String asked = one.getProperty("TIMER_DELIVER_MS");
        write("deliver", ",\"message_id\":\"" + one.getMsgId() + "\",\"topic\":\"" + one.getTopic() + "\",\"queue\":"
            + one.getQueueId() + ",\"offset\":" + one.getQueueOffset() + ",\"stored_ms\":" + one.getStoreTimestamp()
            + (asked == null ? "" : ",\"deliver_ms\":" + asked) + ",\"broker\":\"" + one.getBrokerName()
            + "\",\"keys\":[\"" + one.getKeys() + "\"],\"received_ms\":" + System.currentTimeMillis()
            + ",\"group\":\"" + GROUP + "\"");
    }

    private void answer(String event, String id, String more) {
        write(event, ",\"message_id\":\"" + id + "\"" + more);
    }

    private synchronized void write(String event, String fields) {
        String line = "{\"event\":\"" + event + "\",\"at_ms\":" + System.currentTimeMillis() + ",\"who\":\"" + who + "\""
            + fields + "}\n";
        try {
            history.write(line.getBytes(StandardCharsets.UTF_8));
        } catch (java.io.IOException failed) {
            System.err.println(failed);
            Runtime.getRuntime().halt(1);
        }
    }
}
