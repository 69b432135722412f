// Operator is a controller-runtime program that keeps the copies which our operator keeps, of bench/fake_operator_cluster,
// to compare start and memory with: the same lists and watches, typed where a kind is Kubernetes' own.
//
//	operator --kubeconfig FILE
//
// Prints "whole N" when all copies are whole, N worker pods among them, collects its garbage, and rests until SIGTERM.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

func selector(text string) labels.Selector {
	out, err := labels.Parse(text)
	if err != nil {
		log.Fatal(err)
	}
	return out
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "file that names the server")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	config.ContentType = "application/json"
	config.AcceptContentTypes = "application/json"

	apps := selector("app.kubernetes.io/name in (slurmctld,slurmdbd,slurmrestd,slurmd,login)")
	copies, err := cache.New(config, cache.Options{
		Scheme: scheme.Scheme,
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.StatefulSet{}:        {Label: apps},
			&appsv1.Deployment{}:         {Label: apps},
			&appsv1.ControllerRevision{}: {Label: selector("app.kubernetes.io/name=slurmd")},
			&corev1.Secret{}:             {Field: fields.OneTermNotEqualSelector("type", "helm.sh/release.v1")},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	kinds := []client.Object{
		&corev1.Pod{}, &corev1.Node{}, &corev1.PersistentVolumeClaim{}, &corev1.Secret{}, &corev1.ConfigMap{},
		&corev1.Service{}, &appsv1.StatefulSet{}, &appsv1.Deployment{}, &appsv1.ControllerRevision{},
		&policyv1.PodDisruptionBudget{},
	}
	for _, kind := range []string{"Controller", "Accounting", "RestApi", "LoginSet", "NodeSet", "Token"} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: "slinky.slurm.net", Version: "v1beta1", Kind: kind})
		kinds = append(kinds, object)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	go func() {
		if err := copies.Start(ctx); err != nil {
			log.Fatal(err)
		}
	}()
	// Registers all before it waits for any, so that they are listed beside each other.
	for _, object := range kinds {
		if _, err := copies.GetInformer(ctx, object, cache.BlockUntilSynced(false)); err != nil {
			log.Fatal(err)
		}
	}
	if !copies.WaitForCacheSync(ctx) {
		log.Fatal("the copies do not become whole")
	}
	var pods corev1.PodList
	if err := copies.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("whole %d\n", len(pods.Items))
	pods = corev1.PodList{}
	debug.FreeOSMemory()
	<-ctx.Done()
}
