// Sends in every way that the Go client has, and prints what it receives; see test_go_sends.py.
//
//	sending NAMESRV TOPIC GROUP COUNT
//
// Prints `SENT body message-id moment-or-dash`, `GOT body message-id received stored tag queue offset`, `DONE`.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"interop/must"
)

func message(topic, body string) *primitive.Message {
	return primitive.NewMessage(topic, []byte(body)).WithTag("go")
}

func sent(body, id string, moment int64) {
	if moment == 0 {
		fmt.Println("SENT", body, id, "-")
	} else {
		fmt.Println("SENT", body, id, moment)
	}
}

// send waits for the answer; moment is when the message is to arrive, 0 for now.
func send(p rocketmq.Producer, m *primitive.Message, moment int64) {
	result, err := p.SendSync(context.Background(), m)
	must.Succeed(err)
	sent(string(m.Body), result.MsgID, moment)
}

func main() {
	rlog.SetLogLevel("error")
	namesrv, topic, group := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	must.Succeed(err)

	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		producer.WithGroupName(group+"-producer"),
		producer.WithQueueSelector(producer.NewHashQueueSelector()),
	)
	must.Succeed(err)
	must.Succeed(p.Start())

	send(p, message(topic, "sync"), 0)

	var answered sync.WaitGroup
	answered.Add(1)
	must.Succeed(p.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
		must.Succeed(err)
		sent("async", result.MsgID, 0)
		answered.Done()
	}, message(topic, "async")))
	answered.Wait()

	must.Succeed(p.SendOneWay(context.Background(), message(topic, "oneway")))

	result, err := p.SendSync(context.Background(), message(topic, "batch0"), message(topic, "batch1"), message(topic, "batch2"))
	must.Succeed(err)
	sent("batch", result.MsgID, 0)

	for number := 0; number < 8; number++ {
		m := message(topic, fmt.Sprintf("ordered%d", number)).WithShardingKey("one-key")
		send(p, m, 0)
	}

	at := time.Now().UnixMilli() + 3250
	m := message(topic, "at")
	m.WithProperty("TIMER_DELIVER_MS", strconv.FormatInt(at, 10))
	send(p, m, at)
	for level, seconds := range []int64{1, 5} {
		m := message(topic, fmt.Sprintf("level%d", level+1)).WithDelayTimeLevel(level + 1)
		send(p, m, time.Now().UnixMilli()+seconds*1000)
	}

	c, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	must.Succeed(err)
	got := make(chan string, 1000)
	must.Succeed(c.Subscribe(topic, consumer.MessageSelector{}, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			got <- fmt.Sprintln("GOT", string(m.Body), m.MsgId, time.Now().UnixMilli(), m.StoreTimestamp, m.GetTags(), m.Queue.QueueId, m.QueueOffset)
		}
		return consumer.ConsumeSuccess, nil
	}))
	must.Succeed(c.Start())
	timeout := time.After(40 * time.Second)
	for count > 0 {
		select {
		case line := <-got:
			fmt.Print(line)
			count--
		case <-timeout:
			fmt.Fprintln(os.Stderr, "timed out")
			os.Exit(1)
		}
	}
	must.Succeed(c.Shutdown())
	must.Succeed(p.Shutdown())
	fmt.Println("DONE")
}
