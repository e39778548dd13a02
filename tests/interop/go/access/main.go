// The Go client with an account; see test_access.py.
//
//	access NAMESRV TOPIC ANOTHER-TOPIC GROUP SECONDS
//
// The account stands in the environment: ACCESS_KEY, SECRET_KEY. Prints `SENT topic`, `REFUSED topic error`,
// `GOT body`, `DONE`.
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

func main() {
	rlog.SetLogLevel("error")
	namesrv, topic, another, group := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	seconds, err := strconv.Atoi(os.Args[5])
	must.Succeed(err)
	account := primitive.Credentials{AccessKey: os.Getenv("ACCESS_KEY"), SecretKey: os.Getenv("SECRET_KEY")}
	servers := primitive.NewPassthroughResolver([]string{namesrv})

	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(servers),
		producer.WithGroupName(group+"-producer"),
		producer.WithCredentials(account),
		producer.WithRetry(0),
	)
	must.Succeed(err)
	must.Succeed(p.Start())
	for _, to := range []string{topic, another} {
		if _, err := p.SendSync(context.Background(), primitive.NewMessage(to, []byte("hello"))); err != nil {
			fmt.Println("REFUSED", to, strings.ReplaceAll(err.Error(), " ", "_"))
			if to == topic {
				fmt.Println("DONE")
				return
			}
		} else {
			fmt.Println("SENT", to)
		}
	}

	c, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(servers),
		consumer.WithGroupName(group),
		consumer.WithCredentials(account),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	must.Succeed(err)
	got := make(chan string, 100)
	must.Succeed(c.Subscribe(topic, consumer.MessageSelector{}, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range messages {
			got <- string(m.Body)
		}
		return consumer.ConsumeSuccess, nil
	}))
	must.Succeed(c.Start())
	select {
	case body := <-got:
		fmt.Println("GOT", body)
	case <-time.After(time.Duration(seconds) * time.Second):
	}
	must.Succeed(c.Shutdown())
	must.Succeed(p.Shutdown())
	fmt.Println("DONE")
}
