// Asks COUNT questions of a consumer of its own, and one that gets no answer.
//
//	asking NAMESRV TOPIC COUNT
//
// Prints `REPLIED question true` or `FAILED question error`, `ANSWER question: text`, `DONE`.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"interop/must"
)

func newProducer(namesrv, group string) rocketmq.Producer {
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		producer.WithGroupName(group),
		producer.WithInstanceName(group),
	)
	must.Succeed(err)
	must.Succeed(p.Start())
	return p
}

// answered is the reply to a question; the body is set here because CreateReplyMessage of 2.1.2 takes it for properties.
func answered(question *primitive.MessageExt) *primitive.Message {
	answer, err := consumer.CreateReplyMessage(question, nil)
	must.Succeed(err)
	answer.Body = []byte("re " + string(question.Body))
	return answer
}

// reply tries for a while: an asker of 2.1.2 tells the broker who it is a second after its start, and asks before.
func reply(replier rocketmq.Producer, question *primitive.MessageExt) {
	var err error
	for tries := 0; tries < 100; tries++ {
		var result *primitive.SendResult
		if result, err = replier.SendSync(context.Background(), answered(question)); err == nil {
			fmt.Println("REPLIED", string(question.Body), result.Status == primitive.SendOK)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Println("FAILED", string(question.Body), err)
}

func ask(asker rocketmq.Producer, topic, body string, patience time.Duration) {
	answer, err := asker.Request(context.Background(), patience, primitive.NewMessage(topic, []byte(body)))
	if err != nil {
		fmt.Println("ANSWER", body+":", err)
		return
	}
	fmt.Println("ANSWER", body+":", string(answer.Body))
}

func main() {
	rlog.SetLogLevel("error")
	namesrv, topic := os.Args[1], os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	must.Succeed(err)
	replier := newProducer(namesrv, "Replying-P")
	_, err = replier.SendSync(context.Background(), primitive.NewMessage(topic, []byte("makes the topic")))
	must.Succeed(err)
	replying, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrv})),
		consumer.WithGroupName("Replying"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	must.Succeed(err)
	must.Succeed(replying.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"},
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, one := range messages {
				if strings.HasPrefix(string(one.Body), "question") {
					reply(replier, one)
				}
			}
			return consumer.ConsumeSuccess, nil
		}))
	must.Succeed(replying.Start())
	asker := newProducer(namesrv, "Asking")
	for number := 0; number < count; number++ {
		ask(asker, topic, fmt.Sprint("question", number), 30*time.Second)
	}
	ask(asker, topic, "silence", 2*time.Second)
	must.Succeed(asker.Shutdown())
	must.Succeed(replying.Shutdown())
	must.Succeed(replier.Shutdown())
	fmt.Println("DONE")
}
