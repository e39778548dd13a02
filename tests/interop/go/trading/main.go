// A transactional producer; see test_transactions.py.
//
//	trading NAMESRV TOPIC GROUP
//
// Sends "committed", "undone", "late" and "never", whose transactions end as their names say: the last two are not
// decided when they are sent, and are when the broker asks for the second time. Prints `SENT body state` and
// `CHECKED body times`, and ends when both were asked about twice.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"interop/must"
)

const asksMax = 2

var ends = map[string]primitive.LocalTransactionState{
	"committed": primitive.CommitMessageState,
	"undone":    primitive.RollbackMessageState,
	"late":      primitive.CommitMessageState,
	"never":     primitive.RollbackMessageState,
}

type books struct {
	lock  sync.Mutex
	asked map[string]int
	done  chan string
}

func (b *books) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	body := string(m.Body)
	if body == "late" || body == "never" {
		return primitive.UnknowState
	}
	return ends[body]
}

func (b *books) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	b.lock.Lock()
	defer b.lock.Unlock()
	body := string(m.Body)
	b.asked[body]++
	fmt.Println("CHECKED", body, b.asked[body])
	if b.asked[body] < asksMax {
		return primitive.UnknowState
	}
	if b.asked[body] == asksMax {
		b.done <- body
	}
	return ends[body]
}

func main() {
	rlog.SetLogLevel("error")
	ledger := &books{asked: map[string]int{}, done: make(chan string, 2)}
	p, err := rocketmq.NewTransactionProducer(
		ledger,
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{os.Args[1]})),
		producer.WithGroupName(os.Args[3]),
	)
	must.Succeed(err)
	must.Succeed(p.Start())
	for _, body := range []string{"committed", "undone", "late", "never"} {
		result, err := p.SendMessageInTransaction(context.Background(), primitive.NewMessage(os.Args[2], []byte(body)))
		must.Succeed(err)
		fmt.Println("SENT", body, result.State)
	}
	<-ledger.done
	<-ledger.done
	// The answers to the last checks are one-way.
	time.Sleep(time.Second)
	must.Succeed(p.Shutdown())
	fmt.Println("DONE")
}
