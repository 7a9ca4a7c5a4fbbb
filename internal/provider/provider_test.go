package provider

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// text flattens a diagnostic for searching.
func text(d *tfprotov6.Diagnostic) string {
	return d.Summary + ": " + strings.Join(strings.Fields(d.Detail), " ")
}

func wantOneError(t *testing.T, diags []*tfprotov6.Diagnostic, want ...string) {
	t.Helper()
	if len(diags) != 1 || diags[0].Severity != tfprotov6.DiagnosticSeverityError {
		t.Errorf("got %d diagnostics, want one error", len(diags))
		for _, d := range diags {
			t.Log(text(d))
		}
		return
	}
	for _, part := range want {
		if !strings.Contains(text(diags[0]), part) {
			t.Errorf("the error doesn't say %q:\n%s", part, text(diags[0]))
		}
	}
}

func wantNone(t *testing.T, diags []*tfprotov6.Diagnostic) {
	t.Helper()
	for _, d := range diags {
		t.Errorf("unexpected: %s", text(d))
	}
}

// one is a block with a single host.
func one(host block) block { return block{"hosts": block{"kvm1": host}} }

func TestProvider_validateRefuses(t *testing.T) {
	t.Parallel()
	uri := "qemu+ssh://root@kvm1/system"
	tests := map[string]struct {
		in   block
		want []string
	}{
		"invalid URI of a host": {one(block{"uri": "kvm1"}), []string{
			"Invalid libvirt URI", `hosts.kvm1.uri is "kvm1": it names no driver`,
		}},
		"invalid URI": {block{"uri": "xen:///system"}, []string{`uri is "xen:///system": the driver "xen"`}},
		"unsupported transport": {one(block{"uri": "qemu+ext://kvm1/system"}), []string{
			"hosts.kvm1.uri", `transport "ext" is not supported`,
		}},
		"password in the URI": {one(block{"uri": "qemu+ssh://root:pw@kvm1/system"}), []string{
			"hosts.kvm1.uri: it carries a password",
		}},
		"uri and hosts": {block{"uri": uri, "hosts": block{"kvm1": block{"uri": uri}}}, []string{
			"hosts", "uri", "cannot be specified",
		}},
		"no host at all": {block{"hosts": block{}}, []string{"hosts", "at least 1"}},
		"a host's name":  {block{"hosts": block{"kvm 1": block{"uri": uri}}}, []string{"kvm 1", "letters, digits"}},
		"on_unreachable": {block{"on_unreachable": "ignore"}, []string{
			`on_unreachable: "ignore" isn't one of error, keep`,
		}},
		"default type": {block{"default_domain_type": "xen"}, []string{
			`default_domain_type: "xen" isn't one of kvm, qemu`,
		}},
		"memory_limit":    {one(block{"uri": uri, "memory_limit": "2 Gb"}), []string{`"2 Gb" is not a valid quantity`}},
		"connect_timeout": {block{"ssh": block{"connect_timeout": "10"}}, []string{`"10" is not a valid duration`}},
		"host_key_checking": {one(block{"uri": uri, "ssh": block{"host_key_checking": "no"}}), []string{
			`host_key_checking: "no" isn't one of strict, accept_new, insecure`,
		}},
		"two keys": {block{"ssh": block{"private_key": "x", "private_key_file": "y"}}, []string{
			"private_key_file", "private_key", "cannot be specified",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diags := serve(t).validate(t, tt.in)
			wantOneError(t, diags, tt.want...)
			for _, d := range diags {
				if strings.Contains(text(d), ":pw@") {
					t.Error("the error repeats the password")
				}
			}
		})
	}
}

func TestProvider_validateAcceptsWhatIsNotKnownYet(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]block{
		"nothing": {},
		"unknown": {
			"hosts":          block{"kvm1": block{"uri": unknown, "memory_limit": unknown}},
			"ssh":            block{"private_key": unknown, "host_key_checking": unknown, "connect_timeout": unknown},
			"on_unreachable": unknown,
		},
		"unknown uri": {"uri": unknown},
		// Validation runs where the keys are not, in continuous integration.
		"missing key file": {"ssh": block{"private_key_file": "/nowhere/id"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantNone(t, serve(t).validate(t, in))
		})
	}
}

func TestProvider_configureRefuses(t *testing.T) {
	t.Parallel()
	uri := "qemu+ssh://root@kvm1/system"
	tests := map[string]struct {
		in   block
		want []string
	}{
		"missing key file": {one(block{"uri": uri, "ssh": block{"private_key_file": "/nowhere/id"}}), []string{
			"Invalid SSH settings", "hosts.kvm1.ssh.private_key_file: ", "/nowhere/id", "no such file",
		}},
		"missing key file of all": {block{
			"hosts": block{"kvm1": block{"uri": uri}, "kvm2": block{"uri": uri}},
			"ssh":   block{"private_key_file": "/nowhere/id"},
		}, []string{"Invalid SSH settings: ssh.private_key_file: ", "/nowhere/id"}},
		"missing key file in the URI": {one(block{"uri": uri + "?keyfile=/nowhere/id"}), []string{
			"hosts.kvm1: private_key_file", "/nowhere/id",
		}},
		"missing certificate": {one(block{"uri": uri, "ssh": block{"certificate_file": "/nowhere/crt"}}), []string{
			"hosts.kvm1.ssh.certificate_file: ", "/nowhere/crt",
		}},
		"missing ssh_config": {one(block{"uri": uri, "ssh": block{"config_file": "/nowhere/config"}}), []string{
			"hosts.kvm1.ssh.config_file: ", "/nowhere/config",
		}},
		"not a key": {one(block{"uri": uri, "ssh": block{"private_key": "hunter2"}}), []string{
			"hosts.kvm1.ssh.private_key: ",
		}},
		"jump host": {one(block{"uri": uri, "ssh": block{"jump_hosts": []string{"a b"}}}), []string{
			"hosts.kvm1.ssh.jump_hosts: ", "a b",
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			diags := serve(t).configure(t, tt.in)
			wantOneError(t, diags, tt.want...)
			for _, d := range diags {
				if strings.Contains(text(d), "hunter2") {
					t.Error("the error repeats the key")
				}
			}
		})
	}
}

func TestProvider_configureAsksNobody(t *testing.T) {
	t.Parallel()
	s := serve(t)
	wantNone(t, s.configure(t, block{
		"hosts": block{
			"kvm1": block{"uri": "qemu+ssh://root@192.0.2.1/system", "labels": block{"zone": "a"}, "memory_limit": "4Gi"},
			"kvm2": block{"uri": "test:///default", "schedulable": false},
			// What reaching a fenced host takes may be gone with it.
			"gone": block{"uri": "qemu+ssh://h/system", "fenced": true, "ssh": block{"private_key_file": "/nowhere/id"}},
		},
		"ssh":                 block{"agent": false, "config_file": "none", "connect_timeout": "3s"},
		"default_domain_type": "qemu",
		"on_unreachable":      "keep",
	}))
	d := s.data(t)
	if d.Unknown || d.OnUnreachable != "keep" || d.DefaultDomainType != "qemu" {
		t.Errorf("resources got %v, %q, %q", d.Unknown, d.OnUnreachable, d.DefaultDomainType)
	}
	if diff := cmp.Diff([]string{"gone", "kvm1", "kvm2"}, d.Fleet.HostNames()); diff != "" {
		t.Error(diff)
	}
}

func TestProvider_configureWarnsOfUncheckedHostKeys(t *testing.T) {
	t.Parallel()
	diags := serve(t).configure(t, one(block{
		"uri": "qemu+ssh://kvm1/system", "ssh": block{"host_key_checking": "insecure", "config_file": "none"},
	}))
	if len(diags) != 1 || diags[0].Severity != tfprotov6.DiagnosticSeverityWarning {
		t.Fatalf("got %d diagnostics, want one warning", len(diags))
	}
	if !strings.Contains(text(diags[0]), "hosts.kvm1 is reached with host_key_checking") {
		t.Error(text(diags[0]))
	}
}

// TestProvider_unknownNeverFallsThrough proves that a block whose hosts aren't known leads to no host at all: neither
// to those that are known, nor to the one that libvirt or the environment would pick.
func TestProvider_unknownNeverFallsThrough(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		in   block
		want []string
	}{
		"uri": {block{"uri": unknown}, []string{"uri"}},
		"one of two hosts": {block{"hosts": block{
			"kvm1": block{"uri": unknown}, "kvm2": block{"uri": "test:///default"},
		}}, []string{"hosts.kvm1.uri"}},
		"a key": {
			block{"uri": "qemu+ssh://kvm1/system", "ssh": block{"private_key": unknown, "password": unknown}},
			[]string{"ssh.password", "ssh.private_key"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			wantNone(t, s.configure(t, tt.in))
			d := s.data(t)
			if !d.Unknown || d.Fleet != nil {
				t.Errorf("Unknown = %t, fleet = %v", d.Unknown, d.Fleet)
			}
			if diff := cmp.Diff(tt.want, d.UnknownAttributes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestProvider_onlyHostFromTheEnvironment can't run in parallel: it sets the environment.
func TestProvider_onlyHostFromTheEnvironment(t *testing.T) {
	key := filepath.Join(t.TempDir(), "missing")
	uri := func(host string) string { return "qemu+ssh://" + host + "/system?keyfile=" + key }
	for _, tt := range []struct {
		name, uri, ours, libvirts string
		want                      string
	}{
		{"configured", uri("a"), uri("b"), uri("c"), "uri: private_key_file"},
		{"ours", "", uri("b"), uri("c"), "environment variable VIRTFLEET_URI: private_key_file"},
		{"libvirt's", "", "", uri("c"), "environment variable LIBVIRT_DEFAULT_URI: private_key_file"},
		{"wrong", "", "nonsense", "", `environment variable VIRTFLEET_URI is "nonsense": it names no driver`},
		{"none", "", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(envURI, tt.ours)
			t.Setenv(envLibvirtURI, tt.libvirts)
			in := block{}
			if tt.uri != "" {
				in["uri"] = tt.uri
			}
			s := serve(t)
			diags := s.configure(t, in)
			if tt.want != "" {
				wantOneError(t, diags, tt.want)
				return
			}
			wantNone(t, diags)
			if diff := cmp.Diff([]string{"default"}, s.data(t).Fleet.HostNames()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOwner_saysWhoWhereAndWhich(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := owner(); !strings.Contains(got, "@"+host+" (pid ") {
		t.Errorf("owner() = %q", got)
	}
}
