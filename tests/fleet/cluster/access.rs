//! The API and user that forge connects as, and the errors if that fails.

use super::support::{Cluster, Helm, Site};
use crate::support::Output;

fn doctor(site: &Site) -> Output {
    site.forge(&["doctor", "inventory.yaml", "-v"])
}

/// Returns the part of the report about the API.
fn cluster(out: &Output) -> &str {
    let (_, rest) = out.stdout.split_once("cluster\n").unwrap_or_else(|| panic!("{out}"));
    rest.split_once("\n\n").unwrap_or_else(|| panic!("{out}")).0
}

/// Creates a site whose kubeconfig is the administrator's with one text replaced.
fn altered(api: &Cluster, from: &str, to: &str) -> Site {
    let site = Site::new(api, "kubeconfig".as_ref(), "test", Helm::Three);
    let text = std::fs::read_to_string(&api.kubeconfig).expect("a kubeconfig");
    assert!(text.contains(from), "{text}");
    site.write("kubeconfig", &text.replace(from, to));
    site
}

#[test]
fn doctor_reports_the_configured_api_and_permissions() {
    let Some(api) = Cluster::require() else { return };
    for (helm, version) in [(Helm::Three, "v3.19.0"), (Helm::Four, "v4.1.4")] {
        let out = doctor(&Site::new(api, &api.kubeconfig, "test", helm));
        let server = &api.server;
        assert_eq!(
            cluster(&out),
            format!(
                "  = api: `{server}` is v1.20.2\n  = rights: context `test` has full permissions\n  = helm: {version}"
            )
        );
        assert_eq!(out.code, 0, "{out}");
    }
}

#[test]
fn doctor_warns_of_limited_permissions_and_missing_helm() {
    let Some(api) = Cluster::require() else { return };
    let out = doctor(&Site::new(api, &api.nobody, "test", Helm::No));
    let server = &api.server;
    assert_eq!(
        cluster(&out),
        format!(
            "  ! rights: context `test` has limited permissions\n      hint: steps may be rejected as forbidden; use a context \
             with cluster-admin rights\n  ! helm: `helm` not found on this machine\n      hint: install Helm 3 or 4 on this \
             machine, in a directory on the PATH\n  = api: `{server}` is v1.20.2"
        )
    );
    assert_eq!(out.code, 0, "{out}");
}

#[test]
fn missing_kubeconfig_or_context_has_no_fallback() {
    let Some(api) = Cluster::require() else { return };
    let site = Site::new(api, "gone".as_ref(), "test", Helm::Three);
    let out = Output::of(site.command(&["doctor", "inventory.yaml"]).env("KUBECONFIG", &api.kubeconfig), b"");
    let missing = cluster(&out).starts_with("  x kubeconfig: kubeconfig `") && cluster(&out).contains("` not found\n");
    assert!(missing, "{out}");
    assert_eq!(out.code, 3, "{out}");
    let out = doctor(&Site::new(api, &api.kubeconfig, "other", Helm::Three));
    assert!(
        cluster(&out).contains("has no context `other`\n      hint: available contexts: `test`, `closed`\n"),
        "{out}"
    );
}

#[test]
fn unreachable_api_is_reported_with_its_address() {
    let Some(api) = Cluster::require() else { return };
    let out = doctor(&Site::new(api, &api.kubeconfig, "closed", Helm::Three));
    let refused = "  x api: request to `https://127.0.0.1:1` failed: Connection refused";
    assert!(cluster(&out).starts_with(refused), "{out}");
    assert_eq!(out.code, 3, "{out}");
}

#[test]
fn server_certificate_of_another_authority_is_rejected() {
    let Some(api) = Cluster::require() else { return };
    let text = std::fs::read_to_string(&api.kubeconfig).expect("a kubeconfig");
    let authority = text.split_once("certificate-authority-data: ").expect("an authority").1;
    let authority = authority.split_once(' ').expect("its end").0;
    // The user's certificate is valid, but did not sign the server's.
    let user =
        text.split_once("client-certificate-data: ").expect("a certificate").1.split_once(',').expect("its end").0;
    let out = doctor(&altered(api, authority, user));
    let hint = "hint: check `certificate-authority` in the kubeconfig: it did not sign the server's certificate";
    assert!(cluster(&out).contains("` failed: ") && cluster(&out).contains(hint), "{out}");
    assert_eq!(out.code, 3, "{out}");
}

#[test]
fn invalid_credentials_are_reported_as_401() {
    let Some(api) = Cluster::require() else { return };
    let text = std::fs::read_to_string(&api.kubeconfig).expect("a kubeconfig");
    let user = text.split_once("user: { client-").expect("a user").1.split_once('}').expect("its end").0;
    let out = doctor(&altered(api, &format!("client-{user}"), "token: wrong-token "));
    let rejected = format!("  x api: `{}` rejected the credentials (401)\n", api.server);
    assert!(cluster(&out).starts_with(&rejected), "{out}");
    assert!(!out.to_string().contains("wrong-token"), "{out}");
}

#[test]
fn exec_credential_program_requires_trust() {
    let Some(api) = Cluster::require() else { return };
    let text = std::fs::read_to_string(&api.kubeconfig).expect("a kubeconfig");
    let user = text.split_once("user: { client-").expect("a user").1.split_once('}').expect("its end").0;
    let login = "exec: { apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: get-token } ";
    let site = altered(api, &format!("client-{user}"), login);
    let credential = |name: &str| {
        let data =
            text.split_once(&format!("{name}-data: ")).expect("data").1.split([' ', ',']).next().expect("its end");
        format!("$(echo {data} | base64 -d | sed 's/$/\\\\n/' | tr -d '\\n')")
    };
    let (certificate, key) = (credential("client-certificate"), credential("client-key"));
    let program = format!(
        "#!/bin/sh\ntouch \"$HOME/ran\"\nprintf '%s' \"{{\\\"apiVersion\\\":\\\"client.authentication.k8s.io/v1\\\",\\\"kind\\\":\\\"ExecCredential\\\",\
         \\\"status\\\":{{\\\"clientCertificateData\\\":\\\"{certificate}\\\",\\\"clientKeyData\\\":\\\"{key}\\\"}}}}\"\n"
    );
    site.write("bin/get-token", &program);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(site.path("bin/get-token"), mode).expect("a program");
    let out = doctor(&site);
    let refused = "  x kubeconfig: context `test` runs the program `get-token` on this machine to log in\n";
    assert!(cluster(&out).starts_with(refused), "{out}");
    assert!(!site.path("home/ran").exists(), "it ran without trust");
    let out = site.forge(&["doctor", "inventory.yaml", "-v", "--trust"]);
    assert!(cluster(&out).contains("= rights: context `test` has full permissions"), "{out}");
    assert!(site.path("home/ran").exists());
}

/// An account that may only read sees differences, and says what it does not see.
#[test]
fn read_only_account_finds_drift_without_a_dry_run() {
    let Some(api) = Cluster::require() else { return };
    let site = Site::new(api, &api.kubeconfig, "test", Helm::No);
    std::fs::create_dir(site.path("recipes")).expect("a folder");
    let recipe = "recipe: web\nsummary: A page.\nsteps:\n  - name: space\n    namespace: { name: readers }\n  - name: objects\n    \
                  manifest: { namespace: readers, objects: [{ apiVersion: v1, kind: ConfigMap, metadata: { name: settings }, \
                  data: { text: hello } }, { apiVersion: v1, kind: ResourceQuota, metadata: { name: gpus }, \
                  spec: { hard: { requests.memory: 1024Mi } } }] }\n";
    site.write("recipes/web.yaml", recipe);
    let inventory = |kubeconfig: &std::path::Path| {
        format!(
            "cluster: readers\nconnect: {{ transport: sandbox }}\nhosts: {{ box: }}\n\
             kubernetes: {{ kubeconfig: {}, context: test }}\napply: [{{ recipe: web, on: all }}]\n",
            kubeconfig.display()
        )
    };
    site.write("inventory.yaml", &inventory(&api.kubeconfig));
    let out = site.forge(&["apply", "--yes"]);
    assert_eq!(out.code, 0, "{out}");
    for args in [
        &["create", "clusterrole", "readers", "--verb=get", "--resource=namespaces,configmaps,resourcequotas"][..],
        &["create", "rolebinding", "-n", "readers", "readers", "--clusterrole=readers", "--user=nobody"],
        &["create", "rolebinding", "-n", "forge-provisioner", "readers", "--clusterrole=readers", "--user=nobody"],
    ] {
        api.kubectl(args);
    }
    site.write("inventory.yaml", &inventory(&api.nobody));
    let drift = site.forge(&["drift"]);
    assert_eq!(drift.code, 0, "{drift}");
    let blind = "this account may not `patch` ConfigMap readers/settings, Namespace readers, ResourceQuota readers/gpus: \
                 compared without a dry run";
    assert!(drift.stdout.contains(blind), "{drift}");
    api.kubectl(&[
        "-n",
        "readers",
        "patch",
        "configmap",
        "settings",
        "--type=merge",
        "-p",
        r#"{"data":{"text":"mine"}}"#,
    ]);
    let drift = site.forge(&["drift"]);
    assert_eq!(drift.code, 2, "{drift}");
    assert!(drift.stdout.contains(".data.text") && drift.stdout.contains("kubectl-patch"), "{drift}");
    site.write("inventory.yaml", &inventory(&api.kubeconfig));
}
