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
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * TransactionClient NAMESRV TOPIC GROUP: a transactional producer (group GROUP-P) and a push consumer that stay until
 * the input ends. Lines of the input, with a decision of COMMIT_MESSAGE, ROLLBACK_MESSAGE and UNKNOW:
 *
 *   send NAME DECISION [PROPERTY=VALUE]   sends a message; the local transaction decides so
 *   decide NAME DECISION                  answers checks about it so from now on; until then they are answered UNKNOW
 *
 * The property may ask for a delay: it is set by a hook, since the client refuses it before (5.5) or drops a level (5.3).
 *
 * It prints READY, "SENT NAME STATE", "CHECKED NAME DECISION TIMES" and "GOT NAME" as they happen, at the end DONE.
 */
public final class TransactionClient {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        Map<String, LocalTransactionState> decisions = new ConcurrentHashMap<>();
        Map<String, String[]> asked = new ConcurrentHashMap<>();
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
        producer.getDefaultMQProducerImpl().registerSendMessageHook(new SendMessageHook() {
            @Override
            public String hookName() {
                return "delay";
            }

            @Override
            public void sendMessageBefore(SendMessageContext context) {
                Message message = context.getMessage();
                String[] pair = asked.get(new String(message.getBody(), StandardCharsets.UTF_8));
                if (pair != null) {
                    MessageAccessor.putProperty(message, pair[0], pair[1]);
                }
            }

            @Override
            public void sendMessageAfter(SendMessageContext context) {
            }
        });
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                say("GOT " + new String(one.getBody(), StandardCharsets.UTF_8) + " " + one.getDelayTimeLevel());
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
                    asked.put(words[1], words[3].split("="));
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

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
