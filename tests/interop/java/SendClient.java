import java.nio.charset.StandardCharsets;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The unmodified Java client sends by callback, one-way, in order by a key, by priority, and with a body
 * that it packs, and prints what a consumer receives:
 *
 *   SENT body msgId deliverMs|-      GOT body msgId receivedMs storedMs tag queueId queueOffset
 *
 * Arguments: name server, topic, group, count of messages to receive.
 */
public final class SendClient {
    public static void main(String[] args) throws Exception {
        String nameServer = args[0];
        String topic = args[1];
        String group = args[2];
        int count = Integer.parseInt(args[3]);

        DefaultMQProducer producer = new DefaultMQProducer(group + "-producer");
        producer.setNamesrvAddr(nameServer);
        producer.start();
        print("SENT sync " + producer.send(message(topic, "sync")).getMsgId() + " -");

        CountDownLatch answered = new CountDownLatch(1);
        producer.send(message(topic, "async"), new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                print("SENT async " + result.getMsgId() + " -");
                answered.countDown();
            }

            @Override
            public void onException(Throwable error) {
                error.printStackTrace();
                answered.countDown();
            }
        });
        answered.await();
        producer.sendOneway(message(topic, "oneway"));
        for (int number = 0; number < 8; number++) {
            Message one = message(topic, "ordered" + number);
            print("SENT ordered" + number + " "
                + producer.send(one, new SelectMessageQueueByHash(), "one-key").getMsgId() + " -");
        }
        for (int rank : new int[] {0, 2, 9}) {
            print("SENT rank" + rank + " " + producer.send(ranked(topic, "rank" + rank, rank)).getMsgId() + " -");
            Message late = ranked(topic, "late" + rank, rank);
            long moment = System.currentTimeMillis() + 2_000;
            late.setDeliverTimeMs(moment);
            print("SENT late" + rank + " " + producer.send(late).getMsgId() + " " + moment);
        }
        print("SENT large " + producer.send(message(topic, "large" + "-".repeat(20_000))).getMsgId() + " -");

        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.currentTimeMillis();
            for (MessageExt one : messages) {
                String body = new String(one.getBody(), StandardCharsets.UTF_8);
                String name = body.startsWith("large") && body.length() == 20_005 ? "large" : body;
                got.add("GOT " + name + " " + one.getMsgId() + " " + now + " " + one.getStoreTimestamp() + " "
                    + one.getTags() + " " + one.getQueueId() + " " + one.getQueueOffset());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long end = System.currentTimeMillis() + 40_000;
        while (count > 0 && System.currentTimeMillis() < end) {
            String line = got.poll(100, TimeUnit.MILLISECONDS);
            if (line != null) {
                print(line);
                count--;
            }
        }
        consumer.shutdown();
        producer.shutdown();
        print("DONE");
        System.exit(0);
    }

    private static Message message(String topic, String body) {
        return new Message(topic, "java", body.getBytes(StandardCharsets.UTF_8));
    }

    /** As setPriority makes it, which is there from 5.4 on. */
    private static Message ranked(String topic, String body, int rank) {
        Message one = message(topic, body);
        MessageAccessor.putProperty(one, "_SYS_MSG_PRIORITY_", String.valueOf(rank));
        return one;
    }

    private static void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
