// The Go client under load: sends at once, by levels and for moments, and consumes. It appends to its history, which
// exists, and prints the key of each message that was acknowledged. It runs until it is killed; see soak/real_clients.py.
//
//	loading NAMESRV;… TOPIC HISTORY WHO SEED
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"interop/must"
)

const (
	group       = "soak-go"
	timeout     = 2 * time.Second
	aheadMsMax  = 9_000
	pauseMsMax  = 80
	failedPause = 200 * time.Millisecond
)

type event map[string]any

// history writes the lines of one writer.
type history struct {
	writing sync.Mutex
	file    *os.File
	who     string
}

func (h *history) write(kind string, fields event) {
	fields["event"], fields["at_ms"], fields["who"] = kind, time.Now().UnixMilli(), h.who
	line, err := json.Marshal(fields)
	must.Succeed(err)
	h.writing.Lock()
	defer h.writing.Unlock()
	_, err = h.file.Write(append(line, '\n'))
	must.Succeed(err)
}

// send names the message by its key: the client makes the unique one on its way.
func send(p rocketmq.Producer, h *history, draw *rand.Rand, topic, key string) {
	m := primitive.NewMessage(topic, []byte(key)).WithKeys([]string{key})
	asked := event{"message_id": key, "topic": topic, "keys": []string{key}}
	switch draw.Intn(6) {
	case 0:
		level := 1 + draw.Intn(2)
		m.WithDelayTimeLevel(level)
		asked["level"] = level
	case 1:
		delayMs := 1 + draw.Intn(aheadMsMax)
		m.WithProperty("TIMER_DELAY_MS", strconv.Itoa(delayMs))
		asked["delay_ms"] = delayMs
	case 2:
	default:
		deliverMs := time.Now().UnixMilli() + draw.Int63n(aheadMsMax)
		m.WithProperty("TIMER_DELIVER_MS", strconv.FormatInt(deliverMs, 10))
		asked["deliver_ms"] = deliverMs
	}
	h.write("send", asked)
	result, err := p.SendSync(context.Background(), m)
	if err == nil && result.Status != primitive.SendOK {
		err = fmt.Errorf("status %d", result.Status)
	}
	if err != nil {
		h.write("unknown", event{"message_id": key, "reason": err.Error()})
		time.Sleep(failedPause)
		return
	}
	h.write("ack", event{"message_id": key, "queue": result.MessageQueue.QueueId, "offset": result.QueueOffset})
	fmt.Println(key)
}

func received(h *history, one *primitive.MessageExt) {
	fields := event{
		"message_id": one.GetProperty(primitive.PropertyUniqueClientMessageIdKeyIndex), "topic": one.Topic,
		"queue": one.Queue.QueueId, "offset": one.QueueOffset, "stored_ms": one.StoreTimestamp,
		"broker": one.Queue.BrokerName, "keys": []string{one.GetKeys()}, "received_ms": time.Now().UnixMilli(),
		"group": group,
	}
	if asked, err := strconv.ParseInt(one.GetProperty("TIMER_DELIVER_MS"), 10, 64); err == nil {
		fields["deliver_ms"] = asked
	}
	h.write("deliver", fields)
}

func main() {
	rlog.SetLogLevel("fatal")
	namesrvs := primitive.NewPassthroughResolver(strings.Split(os.Args[1], ";"))
	topic, who := os.Args[2], os.Args[4]
	file, err := os.OpenFile(os.Args[3], os.O_APPEND|os.O_WRONLY, 0)
	must.Succeed(err)
	seed, err := strconv.ParseInt(os.Args[5], 10, 64)
	must.Succeed(err)
	h, draw := &history{file: file, who: who}, rand.New(rand.NewSource(seed))

	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(namesrvs),
		producer.WithGroupName(group+"-producer"),
		producer.WithRetry(0),
		producer.WithSendMsgTimeout(timeout),
	)
	must.Succeed(err)
	must.Succeed(p.Start())
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(namesrvs),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	must.Succeed(err)
	must.Succeed(c.Subscribe(topic, consumer.MessageSelector{},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, one := range messages {
				received(h, one)
			}
			return consumer.ConsumeSuccess, nil
		}))
	must.Succeed(c.Start())
	for number := 1; ; number++ {
		send(p, h, draw, topic, fmt.Sprint(who, "-", number))
		time.Sleep(time.Duration(draw.Intn(pauseMsMax)) * time.Millisecond)
	}
}
