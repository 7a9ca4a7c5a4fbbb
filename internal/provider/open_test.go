package provider

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestOpen_readsABlockAsTerraformDoes(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f, err := Open(t.Context(), []byte(`{"hosts": {
		"a": {"uri": "test:///default", "labels": {"zone": "a"}, "memory_limit": "8Gi"},
		"b": {"uri": "qemu+ssh://root@127.0.0.1:9/system"},
		"c": {"uri": "qemu+tcp://192.0.2.1/system"},
		"d": {"uri": "qemu://kvm4.example.net/system?no_verify=1"},
		"e": {"uri": "qemu+tcp://localhost/system"},
		"f": {"uri": "qemu+tls://kvm6.example.net/system"}
	}, "ssh": {"config_file": "none", "host_key_checking": "insecure", "agent": false}}`),
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if names := f.HostNames(); !slices.Equal(names, []string{"a", "b", "c", "d", "e", "f"}) {
		t.Errorf("got hosts %v", names)
	}
	if !strings.Contains(log.String(), "Host keys are not checked") {
		t.Errorf("the warning is lost: %s", log.String())
	}
	for source, want := range map[string]bool{
		"hosts.c: qemu+tcp is not encrypted": true, "hosts.d: with no_verify": true, "hosts.e": false, "hosts.f": false,
	} {
		if strings.Contains(log.String(), source) != want {
			t.Errorf("%q is told: %v, in %s", source, !want, log.String())
		}
	}
}

func TestOpen_refusesWhatTerraformRefuses(t *testing.T) {
	t.Parallel()
	for block, want := range map[string]string{
		`{"hosts": {"a": {"uri": "kvm1"}}}`: "hosts.a.uri is \"kvm1\": it names no driver",
		`{"host": {}}`:                      "host: the provider block has no such attribute",
		`{"hosts": {"a": {"uri": "test:///default", "labels": "secret"}}}`: "hosts.a.labels: the value has another type",
		`{"hosts": {"a": {}}}`: "uri",
		`{"uri": "test:///default", "hosts": {"a": {"uri": "test:///default"}}}`: "uri",
		`{"ssh": {"host_key_checking": "never"}}`:                                "host_key_checking",
	} {
		f, err := Open(t.Context(), []byte(block), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %s", block, err, want)
		}
		if f != nil {
			t.Error(f.Close())
		}
	}
}
