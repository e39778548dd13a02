import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Member NAMESRV TOPIC GROUP: a producer (group GROUP-P) and a push consumer that stay until the input ends. A line
 * "COUNT DELAY_MS PREFIX" of the input sends COUNT messages PREFIX0, PREFIX1, ... one after the other.
 */
public class Member {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        DefaultMQProducer producer = new DefaultMQProducer(args[2] + "-P");
        producer.setNamesrvAddr(args[0]);
        producer.setPollNameServerInterval(1000);
        producer.start();
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                say("GOT " + new String(one.getBody(), StandardCharsets.UTF_8) + " " + one.getBrokerName() + " "
                    + one.getStoreTimestamp());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        say("READY " + consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().getClientId());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            send(producer, topic, line.split(" "));
        }
        consumer.shutdown();
        producer.shutdown();
        say("DONE");
        System.exit(0);
    }

    private static void send(DefaultMQProducer producer, String topic, String[] words) throws Exception {
        for (int number = 0; number < Integer.parseInt(words[0]); number++) {
            Message message = new Message(topic, (words[2] + number).getBytes(StandardCharsets.UTF_8));
            message.setKeys(words[2] + number);
            if (!words[1].equals("0")) {
                message.setDelayTimeMs(Long.parseLong(words[1]));
            }
            SendResult result = producer.send(message);
            say("SENT " + words[2] + number + " " + result.getMessageQueue().getBrokerName() + " "
                + result.getOffsetMsgId() + " " + result.getMsgId());
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
