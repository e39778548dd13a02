import java.io.File;
import java.lang.reflect.Field;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.BrokerStartup;
import org.apache.rocketmq.common.ServiceThread;

/**
 * RocketMQ's broker, whose RocksDB timers roll when they are told: the stock service waits an hour at least. When a
 * file "roll" is in the user's folder, it is removed and the service is woken; everything else is the stock broker.
 * By reflection, since releases before 5.4 have no such timers.
 */
public final class RollingBroker {
    public static void main(String[] args) throws Exception {
        BrokerController controller = BrokerStartup.start(BrokerStartup.createBrokerController(args));
        File told = new File(System.getProperty("user.home"), "roll");
        while (true) {
            if (told.exists()) {
                Object store = controller.getClass().getMethod("getTimerMessageRocksDBStore").invoke(controller);
                Object timeline = store.getClass().getMethod("getTimeline").invoke(store);
                Field service = timeline.getClass().getDeclaredField("timelineRollService");
                service.setAccessible(true);
                ((ServiceThread) service.get(timeline)).wakeup();
                told.delete();
            }
            Thread.sleep(50);
        }
    }
}
