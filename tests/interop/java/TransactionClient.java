import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * TransactionClient NAMESRV TOPIC GROUP: a transactional producer (group GROUP-P) and a push consumer that stay until
 * the input ends. Lines of the input, with a decision of COMMIT_MESSAGE, ROLLBACK_MESSAGE and UNKNOW:
 *
 *   send NAME DECISION [DELAY_MS]   sends a message; the local transaction decides so
 *   decide NAME DECISION            answers checks about it so from now on; until then they are answered UNKNOW
 *
 * It prints READY, "SENT NAME STATE", "CHECKED NAME DECISION TIMES" and "GOT NAME" as they happen, at the end DONE.
 */
public final class TransactionClient {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        Map<String, LocalTransactionState> decisions = new ConcurrentHashMap<>();
        TransactionMQProducer producer = new TransactionMQProducer(args[2] + "-P");
        producer.setNamesrvAddr(args[0]);
        producer.setPollNameServerInterval(1000);
        producer.setHeartbeatBrokerInterval(1000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object decision) {
                return (LocalTransactionState) decision;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                String name = new String(message.getBody(), StandardCharsets.UTF_8);
                LocalTransactionState decision = decisions.getOrDefault(name, LocalTransactionState.UNKNOW);
                say("CHECKED " + name + " " + decision + " " + message.getTopic() + " "
                    + message.getProperty("TRANSACTION_CHECK_TIMES"));
                return decision;
            }
        });
        Map<String, Long> delays = new ConcurrentHashMap<>();
        producer.getDefaultMQProducerImpl().registerSendMessageHook(new Delaying(delays));
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                say("GOT " + new String(one.getBody(), StandardCharsets.UTF_8));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        say("READY");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            LocalTransactionState decision = LocalTransactionState.valueOf(words[2]);
            if (words[0].equals("decide")) {
                decisions.put(words[1], decision);
            } else {
                Message message = new Message(topic, words[1].getBytes(StandardCharsets.UTF_8));
                if (words.length > 3) {
                    delays.put(words[1], Long.parseLong(words[3]));
                }
                send(producer, message, words[1], decision);
            }
        }
        consumer.shutdown();
        producer.shutdown();
        say("DONE");
        System.exit(0);
    }

    private static void send(TransactionMQProducer producer, Message message, String name,
        LocalTransactionState decision) throws Exception {
        for (int tries = 0; ; tries++) {
            try {
                TransactionSendResult result = producer.sendMessageInTransaction(message, decision);
                say("SENT " + name + " " + result.getSendStatus() + " " + result.getLocalTransactionState());
                return;
            } catch (MQClientException failed) {
                // The broker has just been started again, or refuses the message for good.
                String reason = String.valueOf(failed.getCause()).replace('\n', ' ');
                if (reason.contains("TRANSACTION_") || tries == 20) {
                    say("SENT " + name + " REFUSED " + reason);
                    return;
                }
                Thread.sleep(500);
            }
        }
    }

    /** Delays messages when the client has looked at them: from 5.5 on it lets no transaction have a delay. */
    private static final class Delaying implements SendMessageHook {
        private final Map<String, Long> delays;

        private Delaying(Map<String, Long> delays) {
            this.delays = delays;
        }

        @Override
        public String hookName() {
            return "Delaying";
        }

        @Override
        public void sendMessageBefore(SendMessageContext context) {
            Long delay = delays.get(new String(context.getMessage().getBody(), StandardCharsets.UTF_8));
            if (delay != null) {
                context.getMessage().setDelayTimeMs(delay);
            }
        }

        @Override
        public void sendMessageAfter(SendMessageContext context) {
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
