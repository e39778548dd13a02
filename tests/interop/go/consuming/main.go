// The unmodified Go client as consumers that come and go on command, in the lines that ConsumeClient.java describes;
// without the kind lite, with the kind pull: it polls and acknowledges.
//
//	consuming NAMESRV;…
package main

import (
	"bufio"
	"context"
	"fmt"
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
)

var printing sync.Mutex
var namesrvs []string

func emit(words ...any) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Println(words...)
}

func handled(name string, messages []*primitive.MessageExt) bool {
	all := true
	for _, one := range messages {
		body := string(one.Body)
		emit("GOT", name, body, one.Topic, one.Queue.QueueId, one.QueueOffset, one.ReconsumeTimes,
			time.Now().UnixMilli(), one.StoreTimestamp)
		fails := strings.HasPrefix(body, "bad") || (strings.HasPrefix(body, "once") && one.ReconsumeTimes == 0)
		all = all && !fails
	}
	return all
}

// start gives back what stops it.
func start(words []string) (func(), error) {
	if words[2] == "pull" {
		return startPull(words)
	}
	name, kind, group, topic, expression := words[1], words[2], words[3], words[4], words[5]
	options := map[string]string{"tries": "-1", "level": "0", "type": "TAG"}
	for _, option := range words[6:] {
		key, value, _ := strings.Cut(option, "=")
		options[key] = value
	}
	tries, _ := strconv.Atoi(options["tries"])
	level, _ := strconv.Atoi(options["level"])
	model := consumer.Clustering
	if kind == "broadcasting" {
		model = consumer.BroadCasting
	}
	made, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver(namesrvs)),
		consumer.WithGroupName(group),
		consumer.WithInstance(fmt.Sprint(name, "-", time.Now().UnixNano())),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumerModel(model),
		consumer.WithConsumerOrder(kind == "orderly"),
		consumer.WithMaxReconsumeTimes(int32(tries)),
		consumer.WithSuspendCurrentQueueTimeMillis(100*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	selector := consumer.MessageSelector{Type: consumer.ExpressionType(options["type"]), Expression: expression}
	err = made.Subscribe(topic, selector,
		func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			if concurrent, ok := primitive.GetConcurrentlyCtx(ctx); ok {
				concurrent.DelayLevelWhenNextConsume = level
			}
			switch {
			case handled(name, messages):
				return consumer.ConsumeSuccess, nil
			case kind == "orderly":
				return consumer.SuspendCurrentQueueAMoment, nil
			default:
				return consumer.ConsumeRetryLater, nil
			}
		})
	if err != nil {
		return nil, err
	}
	return func() { _ = made.Shutdown() }, made.Start()
}

// startPull gives back what stops it.
func startPull(words []string) (func(), error) {
	made, err := rocketmq.NewPullConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver(namesrvs)),
		consumer.WithGroupName(words[3]),
		consumer.WithInstance(fmt.Sprint(words[1], "-", time.Now().UnixNano())),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return nil, err
	}
	if err = made.Subscribe(words[4], consumer.MessageSelector{Type: consumer.TAG, Expression: words[5]}); err != nil {
		return nil, err
	}
	if err = made.Start(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var polling sync.WaitGroup
	polling.Add(1)
	go func() {
		defer polling.Done()
		for ctx.Err() == nil {
			request, err := made.Poll(ctx, 200*time.Millisecond)
			if err == nil {
				handled(words[1], request.GetMsgList())
				made.ACK(ctx, request, consumer.ConsumeSuccess)
			}
		}
	}()
	return func() {
		cancel()
		polling.Wait()
		_ = made.Shutdown()
	}, nil
}

// send sends one after the other, each as often as it takes.
func send(group, topic, prefix string, count, pauseMs int) {
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver(namesrvs)),
		producer.WithGroupName(group),
		producer.WithInstanceName(fmt.Sprint(prefix, "-", time.Now().UnixNano())),
	)
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		emit("FAILED", group, err)
		return
	}
	for number := 0; number < count; number++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprint(prefix, "-", number)))
		for {
			if _, err := p.SendSync(context.Background(), message); err == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		emit("SENT", prefix, number)
		time.Sleep(time.Duration(pauseMs) * time.Millisecond)
	}
	_ = p.Shutdown()
}

func main() {
	rlog.SetLogLevel("error")
	running := map[string]func(){}
	namesrvs = strings.Split(os.Args[1], ";")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		name := words[1]
		if words[0] == "stop" {
			running[name]()
			delete(running, name)
			emit("STOPPED", name)
			continue
		}
		if words[0] == "send" {
			count, _ := strconv.Atoi(words[4])
			pauseMs, _ := strconv.Atoi(words[5])
			go send(name, words[2], words[3], count, pauseMs)
			continue
		}
		stop, err := start(words)
		if err != nil {
			emit("FAILED", name, err)
			continue
		}
		running[name] = stop
		emit("READY", name)
	}
	for _, stop := range running {
		stop()
	}
	emit("DONE")
}
