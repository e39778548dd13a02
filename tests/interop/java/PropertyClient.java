import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * PropertyClient NAMESRV TOPIC GROUP: the unmodified Java client sends one message in each way, and prints what a
 * consumer sees of each when it arrives; of the one named retry when it arrives again.
 *
 *   GOT name level property=value …      (words divided by tabs)
 */
public final class PropertyClient {
    private static final int COUNT = 10;

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        // A retry topic is new: with the usual intervals it is found after forty seconds.
        System.setProperty("rocketmq.client.rebalance.waitInterval", "500");
        TransactionMQProducer producer = new TransactionMQProducer(args[2] + "-P");
        producer.setNamesrvAddr(args[0]);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.start();
        producer.send(message(topic, "plain"));
        Message delay = message(topic, "delay");
        delay.setDelayTimeMs(1_500);
        producer.send(delay);
        Message seconds = message(topic, "seconds");
        seconds.setDelayTimeSec(2);
        producer.send(seconds);
        Message moment = message(topic, "moment");
        moment.setDeliverTimeMs(System.currentTimeMillis() + 1_500);
        producer.send(moment);
        Message level = message(topic, "level");
        level.setDelayTimeLevel(1);
        producer.send(level);
        producer.sendMessageInTransaction(message(topic, "transactional"), null);
        producer.send(List.of(message(topic, "batch0"), message(topic, "batch1")));
        producer.send(message(topic, "retry"));
        Message tried = message(topic, "retried level");
        tried.setDelayTimeLevel(1);
        producer.send(tried);

        CountDownLatch left = new CountDownLatch(COUNT);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setPollNameServerInterval(500);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            // One at a time, as the client hands them over unless it is told otherwise.
            for (MessageExt one : messages) {
                String name = new String(one.getBody(), StandardCharsets.UTF_8);
                if (name.startsWith("retr") && one.getReconsumeTimes() == 0) {
                    context.setDelayLevelWhenNextConsume(1);
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                StringBuilder line = new StringBuilder("GOT\t" + name + "\t" + one.getDelayTimeLevel());
                for (Map.Entry<String, String> pair : new TreeMap<>(one.getProperties()).entrySet()) {
                    line.append('\t').append(pair.getKey()).append('=').append(pair.getValue());
                }
                print(line.toString());
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean all = left.await(120, TimeUnit.SECONDS);
        consumer.shutdown();
        producer.shutdown();
        print(all ? "DONE" : "MISSING " + left.getCount());
        System.exit(0);
    }

    private static Message message(String topic, String body) {
        Message message = new Message(topic, "a", "key of-it", body.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("colour", "green");
        return message;
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
