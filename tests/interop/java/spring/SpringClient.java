import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;

/**
 * RocketMQ's starter for Spring Boot, unmodified: a template sends at once and in each way in which a delay can be asked
 * for, a listener receives. It prints as TimerClient does:
 *
 *   SENT body msgId deliverMs|-      GOT body msgId receivedMs storedMs tag
 *
 * Arguments: name server, topic, group.
 */
@Configuration
@EnableAutoConfiguration
@Import(SpringClient.Listener.class)
public class SpringClient {
    private static final CountDownLatch LEFT = new CountDownLatch(4);

    public static void main(String[] args) throws Exception {
        String topic = args[1];
        SpringApplication application = new SpringApplication(SpringClient.class);
        application.setWebApplicationType(WebApplicationType.NONE);
        application.setDefaultProperties(Map.of(
            "rocketmq.name-server", args[0],
            "rocketmq.producer.group", args[2] + "-producer",
            "listener.topic", topic,
            "listener.group", args[2]));
        RocketMQTemplate template = application.run().getBean(RocketMQTemplate.class);

        sent("plain", template.syncSend(topic + ":tag", "plain"), "-");
        long before = System.currentTimeMillis();
        sent("delay", template.syncSendDelayTimeMills(topic + ":tag", "delay", 2_345), "" + (before + 2_345));
        sent("seconds", template.syncSendDelayTimeSeconds(topic + ":tag", "seconds", 2), "" + (before + 2_000));
        sent("at", template.syncSendDeliverTimeMills(topic + ":tag", "at", before + 3_217), "" + (before + 3_217));
        if (LEFT.await(60, TimeUnit.SECONDS)) {
            print("DONE");
        }
        System.exit(0);
    }

    private static void sent(String body, SendResult result, String deliverMs) {
        print("SENT " + body + " " + result.getMsgId() + " " + deliverMs);
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    @RocketMQMessageListener(topic = "${listener.topic}", consumerGroup = "${listener.group}", selectorExpression = "tag")
    static class Listener implements RocketMQListener<MessageExt> {
        @Override
        public void onMessage(MessageExt one) {
            print("GOT " + new String(one.getBody(), StandardCharsets.UTF_8) + " " + one.getMsgId() + " "
                + System.currentTimeMillis() + " " + one.getStoreTimestamp() + " " + one.getTags());
            LEFT.countDown();
        }
    }
}
