import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * StreamClient NAMESRV: the unmodified Java client sends in several ways at once, each to a topic of that name, until
 * a line comes: sync, async, batch, ordered, delayed, transactional. Then it answers the broker until the input ends. What is not acknowledged is not sent again: it
 * tries no send twice by itself, either. Of transactions every third is rolled back, every third is decided when the
 * broker asks. A line for each that is acknowledged, with its moment or "-":
 *
 *   ACK way number momentMs      STOPPED      DONE
 */
public final class StreamClient {
    private static final int BATCH = 4;
    private static final int DELAY_MS = 2_000;

    private interface Sender {
        /** Sends messages from this number on; how many were sent, acknowledged or not. */
        int send(DefaultMQProducer producer, int number) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        AtomicBoolean goesOn = new AtomicBoolean(true);
        List<Thread> ways = new ArrayList<>();
        ways.add(way(args[0], "sync", goesOn, (producer, number) -> one(producer.send(message("sync", number)), number)));
        ways.add(way(args[0], "async", goesOn, StreamClient::async));
        ways.add(way(args[0], "batch", goesOn, StreamClient::batch));
        ways.add(way(args[0], "ordered", goesOn, (producer, number) ->
            one(producer.send(message("ordered", number), new SelectMessageQueueByHash(), "one-key"), number)));
        ways.add(way(args[0], "delayed", goesOn, StreamClient::delayed));
        ways.add(way(args[0], "transactional", goesOn, StreamClient::transactional));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        input.readLine();
        goesOn.set(false);
        for (Thread way : ways) {
            way.join();
        }
        print("STOPPED");
        input.readLine();
        print("DONE");
        System.exit(0);
    }

    private static Thread way(String nameServer, String name, AtomicBoolean goesOn, Sender sender) throws Exception {
        DefaultMQProducer producer = name.equals("transactional") ? trader() : new DefaultMQProducer("P-" + name);
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName(name);
        producer.setPollNameServerInterval(1_000);
        producer.setHeartbeatBrokerInterval(1_000);
        producer.setRetryTimesWhenSendFailed(0);
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.start();
        Thread thread = new Thread(() -> {
            int number = 0;
            while (goesOn.get()) {
                try {
                    number += sender.send(producer, number);
                    Thread.sleep(20);
                } catch (Exception failed) {
                    number += BATCH; // It is not known what became of these.
                    sleep();
                }
            }
        });
        thread.start();
        return thread;
    }

    private static int one(SendResult result, int number) {
        if (result.getSendStatus() == SendStatus.SEND_OK) {
            print("ACK " + result.getMessageQueue().getTopic() + " " + number + " -");
        }
        return 1;
    }

    private static int async(DefaultMQProducer producer, int number) throws Exception {
        CountDownLatch answered = new CountDownLatch(BATCH);
        for (int at = number; at < number + BATCH; at++) {
            int mine = at;
            producer.send(message("async", at), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    one(result, mine);
                    answered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    answered.countDown();
                }
            });
        }
        answered.await();
        return BATCH;
    }

    private static int batch(DefaultMQProducer producer, int number) throws Exception {
        List<Message> messages = new ArrayList<>();
        for (int at = number; at < number + BATCH; at++) {
            messages.add(message("batch", at));
        }
        SendResult result = producer.send(messages);
        for (int at = number; at < number + BATCH; at++) {
            one(result, at);
        }
        return BATCH;
    }

    private static int delayed(DefaultMQProducer producer, int number) throws Exception {
        Message message = message("delayed", number);
        long moment = System.currentTimeMillis() + DELAY_MS;
        message.setDeliverTimeMs(moment);
        producer.send(message);
        print("ACK delayed " + number + " " + moment);
        return 1;
    }

    private static int transactional(DefaultMQProducer producer, int number) throws Exception {
        SendResult result = producer.sendMessageInTransaction(message("transactional", number), null);
        return one(result, number);
    }

    private static TransactionMQProducer trader() {
        TransactionMQProducer producer = new TransactionMQProducer("P-transactional");
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                LocalTransactionState decision = decided(new String(message.getBody(), StandardCharsets.UTF_8));
                return decision == LocalTransactionState.COMMIT_MESSAGE && number(message.getBody()) % 3 == 0
                    ? LocalTransactionState.UNKNOW : decision;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return decided(new String(message.getBody(), StandardCharsets.UTF_8));
            }
        });
        return producer;
    }

    private static LocalTransactionState decided(String number) {
        return Integer.parseInt(number) % 3 == 1 ? LocalTransactionState.ROLLBACK_MESSAGE
            : LocalTransactionState.COMMIT_MESSAGE;
    }

    private static int number(byte[] body) {
        return Integer.parseInt(new String(body, StandardCharsets.UTF_8));
    }

    private static Message message(String topic, int number) {
        return new Message(topic, String.valueOf(number).getBytes(StandardCharsets.UTF_8));
    }

    private static void sleep() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
