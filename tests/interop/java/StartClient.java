import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * Push consumers of the unmodified Java client, each on a new topic, in a new group, with a client of its own and the
 * settings that it has by itself. A timer is sent to the topic, the consumer is started, and stopped when it has got the
 * timer. A line for each:
 *
 *   STARTED topic dueMs startedMs receivedMs
 *
 * startedMs is when start() returned; receivedMs is -1 if nothing came within a minute.
 *
 * Arguments: name server, beginning of the topics, consumers in all, consumers at a time, delay of the timers in ms.
 */
public final class StartClient {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("starts-producer");
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName(args[1] + "-producer");
        producer.setSendMsgTimeout(60_000);
        producer.start();
        ExecutorService workers = Executors.newFixedThreadPool(Integer.parseInt(args[3]));
        for (int number = 0; number < Integer.parseInt(args[2]); number++) {
            String topic = args[1] + "-" + number;
            workers.submit(() -> start(producer, args[0], topic, Long.parseLong(args[4])));
        }
        workers.shutdown();
        workers.awaitTermination(1, TimeUnit.HOURS);
        producer.shutdown();
        System.out.println("DONE");
        System.exit(0);
    }

    /** Sends a timer, as often as it takes where the machine is busy; its moment. */
    private static long send(DefaultMQProducer producer, String topic, long delayMs) throws InterruptedException {
        while (true) {
            Message timer = new Message(topic, topic.getBytes(StandardCharsets.UTF_8));
            long dueMs = System.currentTimeMillis() + delayMs;
            timer.setDeliverTimeMs(dueMs);
            try {
                producer.send(timer);
                return dueMs;
            } catch (MQClientException | RemotingException | MQBrokerException | IllegalStateException refused) {
                Thread.sleep(100);
            }
        }
    }

    private static void start(DefaultMQProducer producer, String nameServer, String topic, long delayMs) {
        try {
            long dueMs = send(producer, topic, delayMs);
            CompletableFuture<Long> received = new CompletableFuture<>();
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(topic + "-group");
            consumer.setNamesrvAddr(nameServer);
            consumer.setInstanceName(topic);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                received.complete(System.currentTimeMillis());
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            long startedMs = System.currentTimeMillis();
            long receivedMs = received.completeOnTimeout(-1L, 1, TimeUnit.MINUTES).get();
            System.out.println("STARTED " + topic + " " + dueMs + " " + startedMs + " " + receivedMs);
            consumer.shutdown();
        } catch (Exception failed) {
            System.out.println("FAILED " + topic + " " + String.valueOf(failed).replace('\n', ' '));
        }
    }
}
