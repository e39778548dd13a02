// The unmodified Go client sends in several ways at once until it is told to stop, in the lines and with the rules that
// StreamClient.java describes; a delayed one is sent by level 1, and none by callback: of a send without an answer the
// client dereferences nil (ProcessSendResponse in 2.1.2), and its process ends.
//
//	streaming NAMESRV
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"interop/must"
)

const batch = 4

var printing sync.Mutex

func acknowledged(way string, number int, moment any) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Println("ACK", way, number, moment)
}

func message(topic string, number int) *primitive.Message {
	return primitive.NewMessage(topic, []byte(strconv.Itoa(number)))
}

func options(namesrv, way string) []producer.Option {
	return []producer.Option{
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		producer.WithGroupName("P-" + way),
		producer.WithInstanceName(way),
		producer.WithRetry(0),
		producer.WithQueueSelector(producer.NewHashQueueSelector()),
	}
}

type sender func(p rocketmq.Producer, number int) error

func one(way string) sender {
	return func(p rocketmq.Producer, number int) error {
		m := message(way, number)
		if way == "ordered" {
			m.WithShardingKey("one-key")
		}
		var moment any = "-"
		if way == "delayed" {
			m.WithDelayTimeLevel(1)
			moment = time.Now().UnixMilli() + 1000
		}
		_, err := p.SendSync(context.Background(), m)
		if err == nil {
			acknowledged(way, number, moment)
		}
		return err
	}
}

func batches(p rocketmq.Producer, number int) error {
	var messages []*primitive.Message
	for at := number; at < number+batch; at++ {
		messages = append(messages, message("batch", at))
	}
	_, err := p.SendSync(context.Background(), messages...)
	for at := number; err == nil && at < number+batch; at++ {
		acknowledged("batch", at, "-")
	}
	return err
}

type decider struct{}

func decided(body []byte) primitive.LocalTransactionState {
	number, err := strconv.Atoi(string(body))
	must.Succeed(err)
	if number%3 == 1 {
		return primitive.RollbackMessageState
	}
	return primitive.CommitMessageState
}

func (decider) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	number, err := strconv.Atoi(string(m.Body))
	must.Succeed(err)
	if number%3 == 0 {
		return primitive.UnknowState
	}
	return decided(m.Body)
}

func (decider) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	return decided(m.Body)
}

// stream sends until it is told to end; numbers that may have been sent are not used again.
func stream(ends *atomic.Bool, send func(number int) error) {
	for number := 0; !ends.Load(); number += batch {
		if send(number) != nil {
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func main() {
	rlog.SetLogLevel("fatal")
	var ends atomic.Bool
	var ways sync.WaitGroup
	senders := map[string]sender{
		"sync": one("sync"), "ordered": one("ordered"), "delayed": one("delayed"), "batch": batches,
	}
	for way, send := range senders {
		send := send
		p, err := rocketmq.NewProducer(options(os.Args[1], way)...)
		must.Succeed(err)
		must.Succeed(p.Start())
		ways.Add(1)
		go func() {
			defer ways.Done()
			stream(&ends, func(number int) error { return send(p, number) })
		}()
	}
	trader, err := rocketmq.NewTransactionProducer(decider{}, options(os.Args[1], "transactional")...)
	must.Succeed(err)
	must.Succeed(trader.Start())
	ways.Add(1)
	go func() {
		defer ways.Done()
		stream(&ends, func(number int) error {
			_, err := trader.SendMessageInTransaction(context.Background(), message("transactional", number))
			if err == nil {
				acknowledged("transactional", number, "-")
			}
			return err
		})
	}()
	input := bufio.NewReader(os.Stdin)
	_, _ = input.ReadString('\n')
	ends.Store(true)
	ways.Wait()
	fmt.Println("STOPPED")
	_, _ = input.ReadString('\n')
	fmt.Println("DONE")
}
