// dradrivers plays the DRA drivers of devices that are not there: it prepares every claim that a kubelet asks for, so
// that pods with claims run. What a driver publishes (ResourceSlices, DeviceClasses) is for others to write.
//
//	dradrivers KUBELET_ROOT... -- DRIVER...
package main

import (
	"context"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"google.golang.org/grpc"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

type driver struct {
	dra.UnimplementedDRAPluginServer
	registration.UnimplementedRegistrationServer
	name, socket string
}

func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.DRAPlugin, Name: d.name, Endpoint: d.socket, SupportedVersions: []string{dra.DRAPluginService}}, nil
}

func (d *driver) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	log.Printf("%s: registered %v %s", d.socket, status.PluginRegistered, status.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func (d *driver) NodePrepareResources(_ context.Context, asked *dra.NodePrepareResourcesRequest) (*dra.NodePrepareResourcesResponse, error) {
	answer := &dra.NodePrepareResourcesResponse{Claims: map[string]*dra.NodePrepareResourceResponse{}}
	for _, claim := range asked.Claims {
		log.Printf("%s: prepared %s/%s", d.socket, claim.Namespace, claim.Name)
		answer.Claims[claim.Uid] = &dra.NodePrepareResourceResponse{}
	}
	return answer, nil
}

func (d *driver) NodeUnprepareResources(_ context.Context, asked *dra.NodeUnprepareResourcesRequest) (*dra.NodeUnprepareResourcesResponse, error) {
	answer := &dra.NodeUnprepareResourcesResponse{Claims: map[string]*dra.NodeUnprepareResourceResponse{}}
	for _, claim := range asked.Claims {
		log.Printf("%s: unprepared %s/%s", d.socket, claim.Namespace, claim.Name)
		answer.Claims[claim.Uid] = &dra.NodeUnprepareResourceResponse{}
	}
	return answer, nil
}

// serve answers at a socket; one that an earlier run left is replaced.
func serve(socket string, register func(*grpc.Server)) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		log.Fatal(err)
	}
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	go func() { log.Fatal(server.Serve(listener)) }()
}

func main() {
	border := slices.Index(os.Args, "--")
	if border < 2 {
		log.Fatal("usage: dradrivers KUBELET_ROOT... -- DRIVER...")
	}
	for _, root := range os.Args[1:border] {
		for _, name := range os.Args[border+1:] {
			d := &driver{name: name, socket: filepath.Join(root, "plugins", name, "dra.sock")}
			serve(d.socket, func(s *grpc.Server) { dra.RegisterDRAPluginServer(s, d) })
			// Last: a kubelet that sees this socket asks at once.
			serve(filepath.Join(root, "plugins_registry", name+"-reg.sock"), func(s *grpc.Server) { registration.RegisterRegistrationServer(s, d) })
		}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}
