import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Asking NAMESRV TOPIC COUNT: asks COUNT questions of a consumer of its own, and one that gets no answer. */
public class Asking {
    public static void main(String[] args) throws Exception {
        DefaultMQProducer replier = new DefaultMQProducer("Replying-P");
        replier.setInstanceName("replier");
        replier.setNamesrvAddr(args[0]);
        replier.start();
        replier.send(new Message(args[1], "makes the topic".getBytes(StandardCharsets.UTF_8)));
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("Replying");
        consumer.setNamesrvAddr(args[0]);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(args[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                String body = new String(one.getBody(), StandardCharsets.UTF_8);
                if (body.startsWith("question")) {
                    try {
                        byte[] answer = ("re " + body).getBytes(StandardCharsets.UTF_8);
                        SendResult result = replier.send(MessageUtil.createReplyMessage(one, answer), 3000);
                        System.out.println("REPLIED " + body + " " + result.getSendStatus());
                    } catch (Exception error) {
                        System.out.println("FAILED " + body + " " + error);
                    }
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer asker = new DefaultMQProducer("Asking");
        asker.setInstanceName("asker");
        asker.setNamesrvAddr(args[0]);
        asker.start();
        for (int number = 0; number < Integer.parseInt(args[2]); number++) {
            ask(asker, args[1], "question" + number, 30000);
        }
        ask(asker, args[1], "silence", 2000);
        asker.shutdown();
        consumer.shutdown();
        replier.shutdown();
        System.out.println("DONE");
        System.exit(0);
    }

    /** With a callback: request() without one ends in 5.3.3 as soon as the question is stored. */
    private static void ask(DefaultMQProducer asker, String topic, String body, long timeout) throws Exception {
        CountDownLatch told = new CountDownLatch(1);
        Message question = new Message(topic, body.getBytes(StandardCharsets.UTF_8));
        asker.request(question, new RequestCallback() {
            @Override
            public void onSuccess(Message reply) {
                System.out.println("ANSWER " + body + ": " + new String(reply.getBody(), StandardCharsets.UTF_8));
                told.countDown();
            }

            @Override
            public void onException(Throwable error) {
                System.out.println("ANSWER " + body + ": " + error.getClass().getSimpleName());
                told.countDown();
            }
        }, timeout);
        told.await();
    }
}
