import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * The unmodified Java client as consumers that come and go on command. A line in, its words separated by tabs:
 *
 *   start name kind group topic expression [option=value …]
 *   seek name queue offset          committed name queue offset-to-wait-for          stop name
 *   send producer-group topic prefix count pause-ms
 *   ahead name topic, what a change of queues does where its heartbeat is left out: the next pulls are of a new version
 *
 * kind: concurrent, orderly, broadcasting; lite, which takes all queues for itself and commits when it is told, and
 * subscribed, a member of its group that commits what it has got. Options: tries, level (delay level of a failure), type
 * (SQL92). A message whose body begins with "bad" always fails, with "once" the first time. A line out for each thing
 * that happened:
 *
 *   READY name      GOT name body topic queue offset tries receivedMs storedMs
 *   FAILED name reason      COMMITTED name offset      STOPPED name      SENT prefix number      AHEAD name
 *
 * Messages prefix-0, prefix-1 … are sent one after the other, each as often as it takes, while other lines are obeyed.
 *
 * Argument: name server. The end of the input ends the program.
 */
public final class ConsumeClient {
    private static final Map<String, Runnable> STOPS = new HashMap<>();
    private static final Map<String, DefaultLitePullConsumer> LITES = new HashMap<>();
    private static final Map<String, DefaultMQPushConsumer> PUSHES = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            try {
                obey(args[0], words);
            } catch (Exception failed) {
                print("FAILED " + words[1] + " " + String.valueOf(failed.getMessage()).replace('\n', ' '));
            }
        }
        STOPS.values().forEach(Runnable::run);
        print("DONE");
        System.exit(0);
    }

    private static void obey(String nameServer, String[] words) throws Exception {
        String name = words[1];
        switch (words[0]) {
            case "start":
                Map<String, String> options = new HashMap<>();
                for (int at = 6; at < words.length; at++) {
                    options.put(words[at].substring(0, words[at].indexOf('=')),
                        words[at].substring(words[at].indexOf('=') + 1));
                }
                for (int attempt = 1; ; attempt++) {
                    try {
                        if (words[2].equals("lite") || words[2].equals("subscribed")) {
                            startLite(nameServer, name, words[2], words[3], words[4], words[5]);
                        } else {
                            startPush(nameServer, name, words[2], words[3], words[4], words[5], options);
                        }
                        break;
                    } catch (IllegalStateException busy) {
                        // Its first connection has three seconds, which a busy machine may take.
                        if (attempt == 10) {
                            throw busy;
                        }
                    }
                }
                print("READY " + name);
                break;
            case "seek":
                LITES.get(name).seek(queue(name, words[2]), Long.parseLong(words[3]));
                break;
            case "committed":
                // Commits in memory; the broker is told within five seconds.
                LITES.get(name).commit();
                long end = System.currentTimeMillis() + 20_000;
                long offset = LITES.get(name).committed(queue(name, words[2]));
                while (offset != Long.parseLong(words[3]) && System.currentTimeMillis() < end) {
                    Thread.sleep(100);
                    offset = LITES.get(name).committed(queue(name, words[2]));
                }
                print("COMMITTED " + name + " " + offset);
                break;
            case "ahead":
                PUSHES.get(name).getDefaultMQPushConsumerImpl().getRebalanceImpl().getSubscriptionInner().get(words[2])
                    .setSubVersion(System.currentTimeMillis());
                print("AHEAD " + name);
                break;
            case "send":
                new Thread(() -> send(nameServer, words)).start();
                break;
            default:
                STOPS.remove(name).run();
                print("STOPPED " + name);
        }
    }

    private static void startPush(String nameServer, String name, String kind, String group, String topic,
        String expression, Map<String, String> options) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(name + "-" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAwaitTerminationMillisWhenShutdown(2_000);
        consumer.setMaxReconsumeTimes(Integer.parseInt(options.getOrDefault("tries", "-1")));
        if (kind.equals("broadcasting")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (options.getOrDefault("type", "TAG").equals("SQL92")) {
            consumer.subscribe(topic, MessageSelector.bySql(expression));
        } else {
            consumer.subscribe(topic, expression);
        }
        int level = Integer.parseInt(options.getOrDefault("level", "0"));
        if (kind.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                context.setSuspendCurrentQueueTimeMillis(100);
                return handled(name, messages) ? ConsumeOrderlyStatus.SUCCESS
                    : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                context.setDelayLevelWhenNextConsume(level);
                return handled(name, messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS
                    : ConsumeConcurrentlyStatus.RECONSUME_LATER;
            });
        }
        consumer.start();
        PUSHES.put(name, consumer);
        STOPS.put(name, consumer::shutdown);
    }

    private static void startLite(String nameServer, String name, String kind, String group, String topic,
        String expression) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName(name + "-" + System.nanoTime());
        consumer.setAutoCommit(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        if (kind.equals("subscribed")) {
            consumer.subscribe(topic, expression);
            consumer.start();
        } else {
            consumer.start();
            consumer.assign(consumer.fetchMessageQueues(topic));
        }
        AtomicBoolean goesOn = new AtomicBoolean(true);
        Thread polling = new Thread(() -> {
            while (goesOn.get()) {
                handled(name, consumer.poll(200));
                if (kind.equals("subscribed")) {
                    consumer.commit();
                }
            }
        });
        polling.start();
        LITES.put(name, consumer);
        STOPS.put(name, () -> {
            goesOn.set(false);
            try {
                polling.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
            consumer.shutdown();
        });
    }

    private static void send(String nameServer, String[] words) {
        DefaultMQProducer producer = new DefaultMQProducer(words[1]);
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(words[3] + "-" + System.nanoTime());
        try {
            producer.start();
            for (int number = 0; number < Integer.parseInt(words[4]); number++) {
                Message message = new Message(words[2], (words[3] + "-" + number).getBytes(StandardCharsets.UTF_8));
                while (!isSent(producer, message)) {
                    Thread.sleep(100);
                }
                print("SENT " + words[3] + " " + number);
                Thread.sleep(Long.parseLong(words[5]));
            }
        } catch (Exception failed) {
            print("FAILED " + words[1] + " " + failed);
        }
        producer.shutdown();
    }

    private static boolean isSent(DefaultMQProducer producer, Message message) throws InterruptedException {
        try {
            return producer.send(message) != null;
        } catch (MQClientException | RemotingException | MQBrokerException | IllegalStateException refused) {
            return false;
        }
    }

    private static MessageQueue queue(String name, String queueId) throws Exception {
        DefaultLitePullConsumer consumer = LITES.get(name);
        for (MessageQueue queue : consumer.assignment()) {
            if (queue.getQueueId() == Integer.parseInt(queueId)) {
                return queue;
            }
        }
        throw new IllegalArgumentException("no queue " + queueId);
    }

    private static boolean handled(String name, List<MessageExt> messages) {
        boolean handled = true;
        for (MessageExt one : messages) {
            String body = new String(one.getBody(), StandardCharsets.UTF_8);
            print("GOT " + name + " " + body + " " + one.getTopic() + " " + one.getQueueId() + " "
                + one.getQueueOffset() + " " + one.getReconsumeTimes() + " " + System.currentTimeMillis() + " "
                + one.getStoreTimestamp());
            handled &= !body.startsWith("bad") && !(body.startsWith("once") && one.getReconsumeTimes() == 0);
        }
        return handled;
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
