import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** RocketMQ's mqadmin, a command a line of the input, an empty line for the list of all: one virtual machine serves for all of them. */
public class MqAdmin {
    public static void main(String[] args) throws Exception {
        System.setProperty("rocketmq.namesrv.addr", args[0]);
        System.setErr(System.out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            MQAdminStartup.main0(line.isBlank() ? new String[0] : line.trim().split(" +"), null);
            System.out.println("\n### DONE");
            System.out.flush();
        }
        System.exit(0);
    }
}
