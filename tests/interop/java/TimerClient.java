import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The unmodified Java client against one broker: sends in every way in which a delay can be asked for, takes
 * one message back, consumes, and prints a line for each thing that happened:
 *
 *   SENT body msgId deliverMs|-      RECALLED body answer      GOT body msgId receivedMs storedMs tag
 *
 * Arguments: name server, topic, group, seconds to consume.
 */
public final class TimerClient {
    public static void main(String[] args) throws Exception {
        String nameServer = args[0];
        String topic = args[1];
        String group = args[2];
        long seconds = Long.parseLong(args[3]);

        DefaultMQProducer producer = new DefaultMQProducer(group + "-producer");
        producer.setNamesrvAddr(nameServer);
        producer.start();
        print("SENT first " + send(producer, message(topic, "first")) + " -");

        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "timed || plain");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.currentTimeMillis();
            for (MessageExt one : messages) {
                got.add("GOT " + new String(one.getBody(), StandardCharsets.UTF_8) + " " + one.getMsgId() + " " + now
                    + " " + one.getStoreTimestamp() + " " + one.getTags());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();

        long now = System.currentTimeMillis();
        Message at = message(topic, "at");
        at.setDeliverTimeMs(now + 3_217);
        print("SENT at " + send(producer, at) + " " + (now + 3_217));

        Message delay = message(topic, "delay");
        delay.setDelayTimeMs(2_345);
        print("SENT delay " + send(producer, delay) + " " + (System.currentTimeMillis() + 2_345));

        Message seconds2 = message(topic, "seconds");
        seconds2.setDelayTimeSec(2);
        print("SENT seconds " + send(producer, seconds2) + " " + (System.currentTimeMillis() + 2_000));

        for (int level = 1; level <= 2; level++) {
            Message classic = message(topic, "level" + level);
            classic.setDelayTimeLevel(level);
            long delayMs = level == 1 ? 1_000 : 5_000;
            print("SENT level" + level + " " + send(producer, classic) + " " + (System.currentTimeMillis() + delayMs));
        }

        Message recalled = message(topic, "recalled");
        recalled.setDelayTimeMs(4_000);
        SendResult result = producer.send(recalled);
        print("SENT recalled " + result.getMsgId() + " " + (System.currentTimeMillis() + 4_000));
        String answer = producer.recallMessage(topic, result.getRecallHandle());
        print("RECALLED recalled " + answer.equals(result.getMsgId()));
        try {
            producer.recallMessage(topic, "bm9uc2Vuc2U=");
            print("RECALLED nonsense accepted");
        } catch (Exception refused) {
            print("RECALLED nonsense refused");
        }

        // What OpenTelemetry's agent does: its trace context is a property of the batch, not of its messages.
        producer.getDefaultMQProducerImpl().registerSendMessageHook(new Tracing());
        List<Message> batch = new ArrayList<>();
        for (int part = 0; part < 3; part++) {
            batch.add(message(topic, "batch" + part));
        }
        print("SENT batch " + producer.send(batch).getSendStatus() + " -");

        long end = System.currentTimeMillis() + seconds * 1000;
        while (System.currentTimeMillis() < end) {
            String line = got.poll(100, TimeUnit.MILLISECONDS);
            if (line != null) {
                print(line);
            }
        }
        consumer.shutdown();
        producer.shutdown();
        print("DONE");
        System.exit(0);
    }

    private static final class Tracing implements SendMessageHook {
        @Override
        public String hookName() {
            return "tracing";
        }

        @Override
        public void sendMessageBefore(SendMessageContext context) {
            context.getMessage().putUserProperty("traceparent", "00-4bf92f35-01");
        }

        @Override
        public void sendMessageAfter(SendMessageContext context) {
        }
    }

    private static Message message(String topic, String body) {
        return new Message(topic, body.startsWith("batch") || body.equals("first") ? "plain" : "timed", "key-" + body,
            body.getBytes(StandardCharsets.UTF_8));
    }

    private static String send(DefaultMQProducer producer, Message message) throws Exception {
        return producer.send(message).getMsgId();
    }

    private static void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
