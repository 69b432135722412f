// Admission is a mutating webhook made with controller-runtime, to compare ours with. It does what ours does to a pod:
// the scheduler's name and one toleration, as a JSON patch. The load comes from outside (tools/bench).
//
//	admission --dir FOLDER
//
// Makes a certificate in FOLDER (tls.crt, its own authority), prints "ready URL FILE" and serves until SIGTERM.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"log"
	"math/big"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	path      = "/mutate--v1-pod"
	scheduler = "slurm-bridge-scheduler"
)

type defaulter struct{}

func (defaulter) Default(_ context.Context, pod *corev1.Pod) error {
	if pod.Spec.SchedulerName != "" && pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
		return nil
	}
	pod.Spec.SchedulerName = scheduler
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
		Key:      "slinky.slurm.net/managed-node",
		Operator: corev1.TolerationOpEqual,
		Value:    scheduler,
		Effect:   corev1.TaintEffectNoExecute,
	})
	return nil
}

func writePEM(file, kind string, bytes []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600)
}

func makeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "bench"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, "tls.crt"), "CERTIFICATE", certificate); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, "tls.key"), "EC PRIVATE KEY", encoded)
}

// A port nobody listens at, at this moment.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func run(dir string) error {
	ctrllog.SetLogger(logr.Discard())
	if err := makeCertificate(dir); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return err
	}
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: dir})
	server.Register(path, admission.WithDefaulter[*corev1.Pod](scheme, defaulter{}))

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	for server.StartedChecker()(nil) != nil {
		select {
		case err := <-ended:
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
	fmt.Printf("ready https://127.0.0.1:%d%s %s\n", port, path, filepath.Join(dir, "tls.crt"))
	return <-ended
}

func main() {
	dir := flag.String("dir", "", "folder for the certificate")
	flag.Parse()
	if *dir == "" {
		log.Fatal("--dir is missing")
	}
	if err := run(*dir); err != nil {
		log.Fatal(err)
	}
}
