import java.nio.charset.StandardCharsets;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * The unmodified Java client with an account, and over TLS when it is asked for: sends to two topics, consumes the
 * first, and prints a line for each thing that happened; who may not even send to the first is done then:
 *
 *   SENT topic      REFUSED topic reason     GOT body      DONE
 *
 * Arguments: name server, topic, another topic, group, seconds to wait for the message; plain, tls, or the path of a
 * tls.properties with certificates. The account stands in the environment: ACCESS_KEY, SECRET_KEY.
 */
public final class AccessClient {
    public static void main(String[] args) throws Exception {
        String nameServer = args[0];
        String topic = args[1];
        String group = args[3];
        if (!args[5].equals("plain")) {
            System.setProperty("tls.enable", "true");
        }
        if (!args[5].equals("plain") && !args[5].equals("tls")) {
            System.setProperty("tls.config.file", args[5]);
        }

        DefaultMQProducer producer = new DefaultMQProducer(group + "-producer", hook());
        producer.setNamesrvAddr(nameServer);
        producer.start();
        if (!send(producer, topic)) {
            print("DONE");
            System.exit(0);
        }
        send(producer, args[2]);

        CountDownLatch got = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, hook());
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> print("GOT " + new String(one.getBody(), StandardCharsets.UTF_8)));
            got.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        got.await(Long.parseLong(args[4]), TimeUnit.SECONDS);
        consumer.shutdown();
        producer.shutdown();
        print("DONE");
        System.exit(0);
    }

    private static RPCHook hook() {
        return new AclClientRPCHook(new SessionCredentials(System.getenv("ACCESS_KEY"), System.getenv("SECRET_KEY")));
    }

    private static boolean send(DefaultMQProducer producer, String topic) throws Exception {
        try {
            producer.send(new Message(topic, "hello".getBytes(StandardCharsets.UTF_8)));
            print("SENT " + topic);
            return true;
        } catch (MQBrokerException refused) {
            print("REFUSED " + topic + " " + refused.getResponseCode());
        } catch (Exception failed) {
            print("REFUSED " + topic + " " + failed.getClass().getName());
        }
        return false;
    }

    private static void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
