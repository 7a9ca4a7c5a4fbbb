package provider

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

func TestSSHOver_theHostsBlockWinsOverTheURIWinsOverTheProviders(t *testing.T) {
	t.Parallel()
	yes := true
	providers := &sshModel{
		PrivateKeyFile: types.StringValue("/all"), Passphrase: types.StringValue("all"),
		CertificateFile: types.StringValue("/all.crt"), Password: types.StringValue("pw"),
		KnownHostsFile: types.StringValue("/known"), HostKeyChecking: types.StringValue("strict"),
		Agent: types.BoolValue(true), JumpHosts: value.NewStringList([]string{"bastion"}),
		ConnectTimeout: value.NewDuration("3s"),
	}
	base := ssh.Config{
		Host: "kvm1", User: "root", PrivateKeyFile: "/all", Passphrase: "all", CertificateFile: "/all.crt", Password: "pw",
		KnownHostsFile: "/known", HostKeyChecking: "strict", Agent: &yes, JumpHosts: []string{"bastion"},
		ConnectTimeout: 3 * time.Second,
	}
	uri := ssh.Config{Host: "kvm1", User: "root"}
	tests := map[string]struct {
		uri  ssh.Config
		host *sshModel
		want func(*ssh.Config)
	}{
		"no override": {uri, nil, func(*ssh.Config) {}},
		"a key of its own brings nothing of the other": {
			uri, &sshModel{PrivateKey: types.StringValue("PEM")},
			func(c *ssh.Config) {
				c.PrivateKey, c.PrivateKeyFile, c.Passphrase, c.CertificateFile = "PEM", "", "", ""
			},
		},
		"one attribute leaves the rest": {
			uri, &sshModel{HostKeyChecking: types.StringValue("accept_new")},
			func(c *ssh.Config) { c.HostKeyChecking = "accept_new" },
		},
		"no jump hosts for this one": {
			uri, &sshModel{JumpHosts: value.NewStringList([]string{})},
			func(c *ssh.Config) { c.JumpHosts = []string{} },
		},
		"the URI": {
			ssh.Config{Host: "kvm1", User: "root", KnownHostsFile: "/uri", HostKeyChecking: "insecure"},
			nil,
			func(c *ssh.Config) { c.KnownHostsFile, c.HostKeyChecking = "/uri", "insecure" },
		},
		"the host over the URI": {
			ssh.Config{Host: "kvm1", User: "root", KnownHostsFile: "/uri", PrivateKeyFile: "/uri"},
			&sshModel{KnownHostsFile: types.StringValue("/host")},
			func(c *ssh.Config) { c.KnownHostsFile, c.PrivateKeyFile, c.CertificateFile = "/host", "/uri", "" },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := base
			tt.want(&want)
			got := sshOver(tt.host, sshWithURI(tt.uri, sshOver(providers, ssh.Config{})))
			if !cmp.Equal(want, got) {
				t.Error(cmp.Diff(want, got))
			}
		})
	}
}
