//! A real Kubernetes API: etcd, kube-apiserver and kube-controller-manager (`tests/cluster/cluster`). No kubelet, no
//! pods, except in `pods` and `kubeadm`.

mod access;
mod api_faults;
// The longest test: libtest starts it early because of its name.
mod bare_servers;
mod definitions;
mod demo;
mod denials;
mod drain;
mod fault_proxy;
mod helm;
mod jobs;
mod kinds;
mod kubeadm;
mod live_edits;
mod new_cluster;
mod objects;
mod offers;
mod pods;
mod rdma;
mod recipes;
mod release;
mod stage;
mod support;
mod test_drain;
mod test_jobs;
mod through;
mod traps;
mod undo;
mod worker_chart;
mod worker_kubelet;
mod worker_pods;
mod workers;
