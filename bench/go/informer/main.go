// Informer is client-go's shared informer over the pods of bench/fake_apiserver, to compare ours with: typed pods, JSON.
//
//	informer --kubeconfig FILE [--events N]
//
// The last line of stdout is one JSON object: sync_s from start to HasSynced; kb_per_pod, growth of resident memory
// after a collection, in 1,000 bytes; events_per_s and events_per_core_s from the first update to the last, by the clock
// and by the processor time of this process.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func resident() float64 {
	runtime.GC()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		log.Fatal(err)
	}
	var total, pages float64
	if _, err := fmt.Sscan(string(text), &total, &pages); err != nil {
		log.Fatal(err)
	}
	return pages * float64(os.Getpagesize())
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// The span of the updates seen. The informer calls its handler from one goroutine.
type updates struct {
	want     int64
	seen     atomic.Int64
	start    time.Time
	startCPU time.Duration
	wall     time.Duration
	cpu      time.Duration
	done     chan struct{}
}

func (u *updates) one() {
	switch u.seen.Add(1) {
	case 1:
		u.start, u.startCPU = time.Now(), processorTime()
	case u.want:
		u.wall, u.cpu = time.Since(u.start), processorTime()-u.startCPU
		close(u.done)
	}
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file that names the server")
	events := flag.Int64("events", 100_000, "updates to wait for")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	config.ContentType = "application/json"
	config.AcceptContentTypes = "application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()

	seen := updates{want: *events, done: make(chan struct{})}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, _ any) { seen.one() },
	}); err != nil {
		log.Fatal(err)
	}

	before := resident()
	start := time.Now()
	factory.Start(ctx.Done())
	for !pods.HasSynced() {
		if ctx.Err() != nil {
			log.Fatal("the first list did not come")
		}
		time.Sleep(time.Millisecond)
	}
	sync := time.Since(start)
	count := len(pods.GetStore().ListKeys())
	grown := resident() - before
	if seen.seen.Load() > 0 {
		log.Fatal("events came before memory was read: let the server pause longer")
	}

	select {
	case <-seen.done:
	case <-ctx.Done():
		log.Fatalf("%d of %d updates came", seen.seen.Load(), *events)
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"pods":              float64(count),
		"sync_s":            sync.Seconds(),
		"kb_per_pod":        grown / float64(count) / 1000,
		"events_per_s":      float64(*events) / seen.wall.Seconds(),
		"events_per_core_s": float64(*events) / seen.cpu.Seconds(),
	}); err != nil {
		log.Fatal(err)
	}
}
