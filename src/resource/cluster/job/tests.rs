//! Rejected workloads, and added limits.

use super::*;

fn build_job(more: Value) -> Result<JobResource, String> {
    let mut fields = json!({ "namespace": "ml", "object": job_object(json!({})) });
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let known = |key: &String| FIELDS.iter().find(|field| field.name == key).unwrap().name;
    let fields = FieldValues(fields.as_object().unwrap().iter().map(|(k, v)| (known(k), v.clone())).collect());
    let job = build(&fields, false).map_err(|diag| diag.message)?;
    let desired = job.desired_value();
    let signs = JobEndPredicates::for_kind("batch/v1", "Job").unwrap();
    let declared =
        DeclaredObject { id: ObjectId::from_object(&desired["object"]).unwrap(), object: desired["object"].clone() };
    Ok(JobResource {
        declared,
        aim: JobGoal::Ends { signs, within_s: 1 },
        logs: JobLogRules::default(),
        about: Value::Null,
        mirrors: Vec::new(),
        absent: false,
    })
}

fn job_object(pod: Value) -> Value {
    let mut spec = json!({ "containers": [{ "name": "a", "image": "x:1" }] });
    spec.as_object_mut().unwrap().extend(pod.as_object().unwrap().clone());
    json!({ "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "smoke" }, "spec": { "template": { "spec": spec } } })
}

fn build_error(more: Value) -> String {
    build_job(more).unwrap_err()
}

#[test]
fn invalid_workload_fields_are_rejected() {
    assert_eq!(build_error(json!({ "object": "x" })), "`object` is not an object");
    assert_eq!(build_error(json!({ "object": { "kind": "Job" } })), "`object` has no `metadata.name`");
    let named =
        |name: &str| json!({ "object": { "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name } } });
    assert_eq!(build_error(named("Smoke")), "`Smoke` is not a valid workload name");
    assert_eq!(build_error(named(&"a".repeat(41))), format!("`{}` is not a valid workload name", "a".repeat(41)));
    let page = json!({ "apiVersion": "example.com/v1", "kind": "Page", "metadata": { "name": "a" } });
    assert_eq!(
        build_error(json!({ "object": page })),
        "unknown status of Page in `example.com/v1`: `succeeded` is missing"
    );
    assert_eq!(
        build_error(json!({ "succeeded": { "path": ".status.phase" } })),
        "`succeeded` needs either `condition`, or `path` and `is`"
    );
    assert_eq!(build_error(json!({ "logs": { "expect": ["("] } })), "invalid regular expression `(`");
    let both = json!({ "stays_pending": 30, "within": 60 });
    assert_eq!(build_error(both), "`stays_pending` excludes `within` and `logs`");
}

#[test]
fn workload_that_bypasses_the_scheduler_is_rejected() {
    let volume = |path: &str| json!({ "object": job_object(json!({ "volumes": [{ "name": "v", "hostPath": { "path": path } }] })) });
    for path in ["/dev", "/dev/infiniband", "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/"] {
        let expected = format!("Job ml/smoke mounts the host's `{path}`, which bypasses the scheduler");
        assert_eq!(build_error(volume(path)), expected);
    }
    assert!(build_job(volume("/etc/localtime")).is_ok());
    let token = |count: Value| {
        let container = json!({
            "name": "a", "image": "x:1", "resources": { "limits": { "rdma/ib": count } },
            "securityContext": { "capabilities": { "add": ["IPC_LOCK"] } },
        });
        json!({ "object": job_object(json!({ "containers": [container] })) })
    };
    assert_eq!(build_error(token(json!(4))), "Job ml/smoke requests 4 of `rdma/ib`, which counts tokens, not adapters");
    assert_eq!(
        build_error(token(json!("2"))),
        "Job ml/smoke requests 2 of `rdma/ib`, which counts tokens, not adapters"
    );
    assert!(build_job(token(json!(1))).is_ok() && build_job(token(json!("1"))).is_ok());
    let bare = json!({ "object": job_object(json!({ "containers": [{ "name": "a", "image": "x" }] })) });
    assert_eq!(build_error(bare), "image `x` of Job ml/smoke is not pinned: it has neither tag nor digest");
}

#[test]
fn default_deadline_ttl_and_restart_policy_are_added() {
    let object = build_job(json!({ "within": 120 })).unwrap().declared.object;
    assert_eq!(object["spec"]["activeDeadlineSeconds"], 180);
    assert_eq!(object["spec"]["ttlSecondsAfterFinished"], 600);
    assert_eq!(object["spec"]["backoffLimit"], 0);
    let pod = &object["spec"]["template"]["spec"];
    assert_eq!((&pod["activeDeadlineSeconds"], &pod["restartPolicy"]), (&json!(180), &json!("Never")));
    let own =
        build_job(json!({ "object": job_object(json!({ "restartPolicy": "OnFailure" })) })).unwrap().declared.object;
    assert_eq!(own["spec"]["template"]["spec"]["restartPolicy"], "OnFailure");
    let mut torch = json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": { "runPolicy": { "cleanPodPolicy": "All" } },
    });
    add_workload_bounds(&mut torch, 60);
    let policy = json!({ "cleanPodPolicy": "All", "activeDeadlineSeconds": 120, "ttlSecondsAfterFinished": 600 });
    assert_eq!(torch["spec"]["runPolicy"], policy);
}

#[test]
fn desired_value_depends_on_the_for_field() {
    let of = |driver: &str| {
        let fields =
            [("namespace", json!("ml")), ("object", job_object(json!({}))), ("for", json!({ "driver": driver }))];
        build(&FieldValues(fields.into_iter().collect()), false).unwrap().desired_value()
    };
    assert_ne!(of("550"), of("560"));
    assert_eq!(of("550"), of("550"));
}
