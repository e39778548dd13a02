import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.filter.expression.BooleanExpression;
import org.apache.rocketmq.filter.parser.SelectorParser;

/**
 * RocketMQ's own SQL92 filter, asked line by line. A line in: an expression, then names and values of properties,
 * separated by 0x01; 0x02 stands for a line's end. A line out: MATCH, NO, or REFUSED when it does not compile.
 */
public final class FilterOracle {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.replace('\u0002', '\n').split("\u0001", -1)));
            System.out.flush();
        }
    }

    private static String answer(String[] fields) {
        BooleanExpression expression;
        try {
            expression = SelectorParser.parse(fields[0]);
        } catch (Throwable refused) {
            return "REFUSED";
        }
        Map<String, String> properties = new HashMap<>();
        for (int at = 1; at + 1 < fields.length; at += 2) {
            properties.put(fields[at], fields[at + 1]);
        }
        try {
            return Boolean.TRUE.equals(expression.evaluate(new MessageEvaluationContext(properties))) ? "MATCH" : "NO";
        } catch (Throwable failed) {
            return "NO";
        }
    }
}
