// The verbs of crictl that kubeadm uses, on the CRI of this Kubernetes: Debian 12 has no crictl. Built in the tree of
// Kubernetes, with its copy of the CRI.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1alpha2"
)

func main() {
	socket, words := "/run/containerd/containerd.sock", []string{}
	for at := 1; at < len(os.Args); at++ {
		switch os.Args[at] {
		case "-r", "--runtime-endpoint":
			at++
			socket = strings.TrimPrefix(os.Args[at], "unix://")
		default:
			words = append(words, os.Args[at])
		}
	}
	if err := run(socket, words); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(socket string, words []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dial := grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	})
	conn, err := grpc.DialContext(ctx, socket, grpc.WithInsecure(), grpc.WithBlock(), dial)
	if err != nil {
		return err
	}
	pods, images := runtime.NewRuntimeServiceClient(conn), runtime.NewImageServiceClient(conn)
	what, of := strings.Join(words[:1], " "), words[1:]
	switch what {
	case "info":
		said, err := pods.Status(ctx, &runtime.StatusRequest{})
		if err == nil {
			fmt.Println(said.Status)
		}
		return err
	case "pods":
		said, err := pods.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{})
		if err != nil {
			return err
		}
		for _, pod := range said.Items {
			fmt.Println(pod.Id)
		}
		return nil
	case "stopp":
		_, err = pods.StopPodSandbox(ctx, &runtime.StopPodSandboxRequest{PodSandboxId: of[0]})
	case "rmp":
		_, err = pods.RemovePodSandbox(ctx, &runtime.RemovePodSandboxRequest{PodSandboxId: of[0]})
	case "inspecti":
		said, err := images.ImageStatus(ctx, &runtime.ImageStatusRequest{Image: &runtime.ImageSpec{Image: of[0]}})
		if err == nil && said.Image == nil {
			err = fmt.Errorf("no such image %q present", of[0])
		}
		return err
	case "pull":
		_, err = images.PullImage(ctx, &runtime.PullImageRequest{Image: &runtime.ImageSpec{Image: of[0]}})
	default:
		return fmt.Errorf("unknown verb %q", what)
	}
	return err
}
