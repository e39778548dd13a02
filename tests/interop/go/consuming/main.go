// The unmodified Go client as consumers that come and go on command, in the lines that ConsumeClient.java describes;
// without the kind lite.
//
//	consuming NAMESRV
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
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var printing sync.Mutex

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

func start(namesrv string, words []string) (rocketmq.PushConsumer, error) {
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
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
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
	return made, made.Start()
}

func main() {
	rlog.SetLogLevel("error")
	running := map[string]rocketmq.PushConsumer{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		name := words[1]
		if words[0] == "stop" {
			_ = running[name].Shutdown()
			delete(running, name)
			emit("STOPPED", name)
			continue
		}
		made, err := start(os.Args[1], words)
		if err != nil {
			emit("FAILED", name, err)
			continue
		}
		running[name] = made
		emit("READY", name)
	}
	for _, one := range running {
		_ = one.Shutdown()
	}
	emit("DONE")
}
