package firststeps_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// onServers are the examples whose disks are on servers, which the lab starts for them. Their VMs run.
func (u *user) onServers() []example {
	small := func(vms ...string) (override string) {
		for _, vm := range vms {
			override += fmt.Sprintf("resource \"virtfleet_virtual_machine\" %q {\n  memory = { size = \"64Mi\" }\n}\n", vm)
		}
		return override
	}
	return []example{
		{
			dir: "ceph", before: u.hasCeph, lab: small("orders"),
			args: ` -var "ceph_key=$(` + cephKey + `)" -var 'image=` + u.image + `'`,
			has: []string{
				"name='vms/orders-root-", "name='vms/orders'", "name='vms/orders-data'", "<auth username='libvirt'>",
				"client.libvirt",
			},
		},
		{
			dir: "network-disks", before: u.hasServers, lab: small("orders", "archive", "new"),
			rest: "resource \"virtfleet_storage_pool\" \"vms\" {\n  name = \"vms\"\n  type = \"dir\"\n" +
				"  target = { path = \"/srv/vms\" }\n}\n",
			has: []string{"protocol='iscsi'", "protocol='nbd'", "tls='yes'", "protocol='https'", "name='iso/manuals.iso'"},
		},
	}
}

const cephKey = "ceph auth get-key client.libvirt"

// hasCeph starts the cluster of the example, which has its pool, its user and the image that exists. It has one
// monitor.
func (u *user) hasCeph(t *testing.T, dir string) {
	t.Helper()
	ceph := u.lab.Ceph(t, lab.Name(t)+"-ceph")
	u.env = append(u.env, "CEPH_CONF="+ceph.ConfigFile())
	ceph.RBD(t, "create", "--size", "1M", "vms/orders")
	if said := u.prints(t, u.home, cephKey, ""); !strings.Contains(said, ceph.Key) {
		t.Errorf("the key is said to be %q", said)
	}
	u.edits(t, filepath.Join(dir, "ceph_main.tf"),
		`, { name = "ceph2.example.net", port = 6789 }`, "",
		`name = "ceph1.example.net", port = 6789`, fmt.Sprintf("name = %q, port = %d", ceph.Host, ceph.Port))
}

// hasServers starts the servers of the example: for iSCSI with a password, for NBD with the certificates of the hosts,
// and for the web. The hosts don't know who signed the certificate of the one with HTTPS.
func (u *user) hasServers(t *testing.T, dir string) {
	t.Helper()
	name := lab.Name(t)
	san := u.lab.ISCSI(t, name+"-san", 1<<20)
	authority := lab.NewAuthority(t)
	for _, h := range []string{"kvm1", "kvm2"} {
		authority.EquipNBD(t, u.lab, u.hosts[h])
	}
	export := u.lab.TLSExport(t, authority, name+"-nbd", 1<<20)
	login := lab.Login{Username: "hosts", Password: "battery staple"}
	medium := bytes.Repeat([]byte("medium\n\x00"), 8<<10)
	secure := u.lab.Serve(t, "iso/debian.iso", medium, login, true)
	mirror := u.lab.Serve(t, "iso/manuals.iso", medium, lab.Login{}, false)
	u.env = append(u.env, "TF_VAR_chap_password="+san.Password, "TF_VAR_web_password="+login.Password)
	u.edits(t, filepath.Join(dir, "network-disks_main.tf"),
		"iqn.2026-01.net.example:vms/1", san.IQN+"/1", "san.example.net:3260", fmt.Sprintf("%s:%d", san.Host, san.Port),
		`username = "hosts", secret = virtfleet_secret.chap.id`,
		fmt.Sprintf("username = %q, secret = virtfleet_secret.chap.id", san.Username),
		`name         = "archive"`, fmt.Sprintf("name = %q", export.Name), "192.0.2.20:10809", export.Address(),
		"nbd.example.net", export.Host, "media.example.net:443", secure, "timeout  = 30", "timeout = 30\nssl_verify = false",
		"mirror.example.net:80", mirror, `pool = "vms"`, "pool = virtfleet_storage_pool.vms.name")
}

// edits replaces what the lab has under another name: pairs of the example's text, which has to be there, and the
// lab's.
func (u *user) edits(t *testing.T, file string, replaced ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(u.home, file))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replaced); i += 2 {
		if !strings.Contains(string(text), replaced[i]) {
			t.Fatalf("%s has no %q", file, replaced[i])
		}
	}
	u.write(t, file, strings.NewReplacer(replaced...).Replace(string(text)), 0o644)
}
