//! A real Kubernetes API: etcd, kube-apiserver and kube-controller-manager (`tests/cluster/cluster`). No kubelet, no pods.

mod access;
mod drain;
mod helm;
mod objects;
mod recipes;
mod release;
mod support;
mod through;
mod traps;
