import io.netty.bootstrap.ServerBootstrap;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.BrokerStartup;
import org.apache.rocketmq.remoting.netty.NettyRemotingServer;
import org.apache.rocketmq.store.DefaultMessageStore;

/**
 * The broker of RocketMQ 4.9 with its listeners bound to loopback: it has no setting for that. Everything else is the
 * stock broker.
 */
public final class LoopbackBroker {
    public static void main(String[] args) throws ReflectiveOperationException {
        BrokerController controller = BrokerStartup.createBrokerController(args);
        for (String server : new String[] {"remotingServer", "fastRemotingServer"}) {
            set(NettyRemotingServer.class, get(controller, server), "serverBootstrap", new LoopbackBootstrap());
        }
        Object accepting = get(((DefaultMessageStore) controller.getMessageStore()).getHaService(), "acceptSocketService");
        SocketAddress old = (SocketAddress) get(accepting, "socketAddressListen");
        set(accepting.getClass(), accepting, "socketAddressListen", onLoopback(old));
        BrokerStartup.start(controller);
    }

    private static Object get(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }

    private static void set(Class<?> type, Object of, String name, Object value) throws ReflectiveOperationException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        field.set(of, value);
    }

    private static InetSocketAddress onLoopback(SocketAddress address) {
        return new InetSocketAddress("127.0.0.1", ((InetSocketAddress) address).getPort());
    }

    private static final class LoopbackBootstrap extends ServerBootstrap {
        @Override
        public ServerBootstrap localAddress(SocketAddress address) {
            return super.localAddress(onLoopback(address));
        }
    }
}
