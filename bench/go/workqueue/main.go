// Workqueue times client-go's rate limiting work queue, to compare ours with: add, get and done of one item, from one
// goroutine, while a thousand others wait. src/runtime/work_queue_bench.cpp does the same.
//
// The last line of stdout is one JSON object: us_per_item, by the processor time of this process, as ours is timed.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"syscall"
	"time"

	"k8s.io/client-go/util/workqueue"
)

const (
	names   = 4096
	waiting = 1024
	rounds  = 3_000_000
)

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func main() {
	keys := make([]string, names)
	for i := range keys {
		keys[i] = fmt.Sprintf("team-%d/trainer-job-%d", i%97, i)
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()

	next := 0
	for ; next < waiting; next++ {
		queue.Add(keys[next])
	}
	start := processorTime()
	for range rounds {
		queue.Add(keys[next%names])
		next++
		key, _ := queue.Get()
		queue.Done(key)
	}
	took := processorTime() - start
	if err := json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"us_per_item": float64(took.Nanoseconds()) / 1e3 / rounds,
	}); err != nil {
		log.Fatal(err)
	}
}
