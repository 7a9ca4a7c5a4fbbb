package provider

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

func TestParseURI_refuses(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"kvm1":                                         "names no driver",
		"root@kvm1:/system":                            "can't be read as a URI",
		"qemu+ssh://host:port/system":                  "can't be read as a URI",
		"xen:///system":                                `driver "xen" is not supported; supported are "qemu", "test"`,
		"qemu+telnet://kvm1/system":                    `transport "telnet" is not supported`,
		"qemu+ssh:///system":                           `transport "ssh" needs a host name`,
		"qemu+ssh://kvm1":                              `path is ""`,
		"qemu:///":                                     `path is "/"`,
		"qemu+ssh://root:hunter2@kvm1/system":          "carries a password",
		"qemu+ssh://kvm1/system?command=/x/ssh":        `parameter "command" is not supported: the provider has its own`,
		"qemu+ssh://kvm1/system?netcat=ncat":           `parameter "netcat" is not supported`,
		"qemu+ssh://kvm1/system?keyfle=/x":             `parameter "keyfle" is unknown`,
		"qemu+ssh://kvm1/system?no_verify=yes":         `no_verify is "yes"`,
		"qemu+ssh://k/system?known_hosts_verify":       "",
		"qemu+ssh://k/system?known_hosts_verify=maybe": `known_hosts_verify is "maybe"`,
	} {
		_, err := parseURI(raw)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", raw, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", raw, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error repeats the password", raw)
		}
	}
}

func TestCheckPeerURI(t *testing.T) {
	t.Parallel()
	const nowhere = "doesn't lead from one host to another"
	for raw, want := range map[string]string{
		"qemu+tls://10.0.0.12/system": "", "qemu://kvm1/system": "", "qemu+tcp://[fd00::1]:16509/system": "",
		"qemu+ssh://root@kvm1/system?command=/x/ssh&keyfile=/x": "", // It is libvirt's own ssh.
		"qemu:///system": nowhere, "qemu+unix:///system": nowhere, "qemu+unix://kvm1/system": nowhere,
		"test://kvm1/default": nowhere, "10.0.0.12": "names no driver", "qemu+tls://kvm1": `path is ""`,
		"qemu+tls://root:hunter2@kvm1/system": "carries a password",
	} {
		err := checkPeerURI(raw)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", raw, err, want)
		}
	}
}

func TestParseURI_accepts(t *testing.T) {
	t.Parallel()
	for raw, overSSH := range map[string]bool{
		"qemu:///system": false, "qemu:///session": false, "qemu+unix:///system?socket=/x": false,
		"qemu://kvm1/system": false, "qemu+tls://kvm1/system?no_verify=1&pkipath=/x": false,
		"qemu+tcp://kvm1:16509/system": false, "test:///default": false, "test:///home/me/test.xml": false,
		"qemu+ssh://kvm1/system": true, "qemu+libssh2://root@kvm1:2222/system?known_hosts=/x;mode=legacy": true,
		"qemu+ssh://[fd00::1]:22/system": true,
	} {
		c, err := parseURI(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		} else if c.overSSH() != overSSH {
			t.Errorf("%s: over SSH = %t", raw, c.overSSH())
		}
	}
}

func TestConnectionURI_keepsLibvirtsMeaning(t *testing.T) {
	t.Parallel()
	helper := "qemu:///system"
	for raw, want := range map[string]ssh.Config{
		"qemu+ssh://kvm1/system":           {Host: "kvm1", HelperURI: helper},
		"qemu+ssh://root@kvm1:2222/system": {Host: "kvm1", User: "root", Port: 2222, HelperURI: helper},
		"qemu+ssh://[fd00::1]/session":     {Host: "fd00::1", HelperURI: "qemu:///session"},
		"qemu+ssh://k/system?keyfile=/key&known_hosts=/known": {
			Host: "k", PrivateKeyFile: "/key", KnownHostsFile: "/known", HelperURI: helper,
		},
		"qemu+ssh://k/system?no_verify=1": {Host: "k", HostKeyChecking: ssh.HostKeyAcceptNew, HelperURI: helper},
		"qemu+ssh://k/system?no_verify=0": {Host: "k", HelperURI: helper},
		"qemu+ssh://k/system?known_hosts_verify=normal": {
			Host: "k", HostKeyChecking: ssh.HostKeyStrict, HelperURI: helper,
		},
		"qemu+ssh://k/system?known_hosts_verify=auto": {
			Host: "k", HostKeyChecking: ssh.HostKeyAcceptNew, HelperURI: helper,
		},
		"qemu+ssh://k/system?known_hosts_verify=ignore": {
			Host: "k", HostKeyChecking: ssh.HostKeyInsecure, HelperURI: helper,
		},
	} {
		c, err := parseURI(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		got, err := c.ssh()
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}
