package faultmatrix

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// objects are hosts with one object of each kind, or that get them.
type objects struct {
	l *lab.Lab
	// hosts are those of the provider. h is the one that is looked at, and whose connection goes silent.
	hosts     []*lab.Host
	h         *lab.Host
	name, dir string
	// subnet is the beginning of the addresses of a network that other objects depend on.
	subnet string
	tf     *acctest.CLI
}

// object is an object of a kind in each of its states.
type object struct {
	kind string
	// created and updated are the attributes before and after the update.
	created, updated string
	// made, changed and removed say whether the host has begun to create, update and remove the object, at a point at
	// which the provider has more to do, unless a single call does everything.
	made, changed, removed func() bool
	// afterUpdate and afterDestroy are what the plan says once the provider was killed at that point.
	afterUpdate, afterDestroy string
}

func newObjects(t *testing.T, subnet string, hosts ...string) (*objects, []object) {
	t.Helper()
	l := lab.Open(t)
	o := &objects{l: l, h: l.Host(hosts[0]), name: lab.Name(t), subnet: subnet, tf: acctest.NewCLI(t)}
	o.dir = "/var/lib/libvirt/" + o.name
	for _, host := range hosts {
		o.hosts = append(o.hosts, l.Host(host))
		o.prepare(t, l.Host(host))
	}
	return o, o.kinds(t)
}

// prepare gives a host objects that the others depend on, and that stay.
func (o *objects) prepare(t *testing.T, h *lab.Host) {
	t.Helper()
	o.l.Run(t, h.Name, "sh", "-ec", strings.NewReplacer("DIR", o.dir, "NAME", o.name, "SUBNET", o.subnet).Replace(`
mkdir -p DIR-0
dd if=/dev/urandom of=DIR-0/seed bs=1M count=4
virsh pool-create-as NAME-0 dir --target DIR-0
cat >/run/NAME.xml <<EOF
<network><name>NAME-0</name><ip address='SUBNET.1' prefix='24'/></network>
EOF
virsh net-define /run/NAME.xml
rm /run/NAME.xml
virsh net-start NAME-0`))
	t.Cleanup(func() {
		if _, err := h.Run(context.WithoutCancel(t.Context()), "sh", "-ec", strings.NewReplacer(
			"DIR", o.dir, "NAME", o.name).Replace(`
virsh net-destroy NAME-0
virsh net-undefine NAME-0
virsh pool-destroy NAME-0
rm -rf DIR DIR-0 DIR-2`)); err != nil {
			t.Error(err)
		}
	})
}

// kinds are the objects of each kind.
func (o *objects) kinds(t *testing.T) []object {
	t.Helper()
	named := fmt.Sprintf("name = %q\n  ", o.name)
	network := "/etc/libvirt/qemu/networks/" + o.name + ".xml"
	filter, pool := "/etc/libvirt/nwfilter/"+o.name+".xml", "/etc/libvirt/storage/"+o.name+".xml"
	const shared = "type = \"dir\"\n  shared = true\n  " // The provider records that in a secret.
	quoted := func(ip string) string { return fmt.Sprintf("%q", o.subnet+ip) }
	reserved := func(ip string) func() bool {
		return o.file("/etc/libvirt/qemu/networks/"+o.name+"-0.xml", "ip='"+o.subnet+ip+"'")
	}
	not := func(is func() bool) func() bool { return func() bool { return !is() } }
	rule := `rules = [{ action = "%s", direction = "in", protocol = "tcp" }]`
	volume := named + fmt.Sprintf(
		"pool = \"%[1]s-0\"\n  copy_of = \"%[1]s-0/seed\"\n  format = \"raw\"\n  size = ", o.name)
	reservation := fmt.Sprintf("network = \"%s-0\"\n  mac = \"52:54:00:12:34:56\"\n  ip = ", o.name)
	secret := fmt.Sprintf("usage = \"ceph\"\n  usage_id = %q\n  private = false\n  ", o.name)
	images := t.TempDir()
	image := func(content string) (attributes string, copied func() bool) {
		data := bytes.Repeat([]byte(content), 1<<18)
		file := filepath.Join(images, content)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		return fmt.Sprintf("name = \"base\"\n  pool = \"%s-0\"\n  source = { file = %q }", o.name, file),
			o.file(o.dir+"-0/base-"+hex.EncodeToString(sum[:6]), "")
	}
	oldImage, oldCopied := image("old")
	newImage, newCopied := image("new")
	return []object{
		{
			kind: "network", created: named + `forward = { mode = "isolated" }`,
			updated: named + "forward = { mode = \"isolated\" }\n  domain = { name = \"new.test\" }",
			made:    o.file(network, ""), changed: o.file(network, "new.test"),
			removed: not(o.file("/run/libvirt/network/"+o.name+".xml", "")), afterUpdate: "update", afterDestroy: "update",
		},
		{
			kind: "network_filter", created: named + fmt.Sprintf(rule, "drop"), updated: named + fmt.Sprintf(rule, "accept"),
			made: o.file(filter, ""), changed: o.file(filter, "accept"), removed: not(o.file(filter, "")),
			afterUpdate: "update", afterDestroy: "create",
		},
		{
			kind: "network_dhcp_host", created: reservation + quoted(".7"), updated: reservation + quoted(".8"),
			made: reserved(".7"), changed: reserved(".8"), removed: not(reserved(".8")),
			afterUpdate: "no-op", afterDestroy: "create",
		},
		{
			kind: "storage_pool", created: named + shared + fmt.Sprintf("target = { path = %q }", o.dir),
			updated: named + shared + fmt.Sprintf("target = { path = \"%s-2\" }", o.dir),
			made:    o.file(pool, ""), changed: o.file(pool, o.dir+"-2"), removed: not(o.file(pool, "")),
			afterUpdate: "update", afterDestroy: "create",
		},
		{
			kind: "volume", created: volume + `"4Mi"`, updated: volume + `"5Mi"`,
			made: o.file(o.dir+"-0/"+o.name, ""), changed: func() bool { return o.size() == 5<<20 },
			removed: not(o.file(o.dir+"-0/"+o.name, "")), afterUpdate: "no-op", afterDestroy: "create",
		},
		{
			kind: "image", created: oldImage, updated: newImage, made: oldCopied, changed: newCopied,
			removed: func() bool { return len(o.copies()) == 0 }, afterUpdate: "update", afterDestroy: "create",
		},
		{
			kind: "secret", created: secret + `value_wo = "hush"`,
			updated: secret + "value_wo = \"hush now\"\n  value_wo_version = \"2\"\n  description = \"changed\"",
			made:    o.hasSecret("<name>" + o.name + "</name>"), changed: o.hasSecret("changed"),
			removed: not(o.hasSecret("<name>" + o.name + "</name>")), afterUpdate: "update", afterDestroy: "update",
		},
	}
}

// file says whether the host has a file that contains a text.
func (o *objects) file(at, text string) func() bool {
	return func() bool {
		content, err := os.ReadFile(o.h.Path(at))
		return err == nil && strings.Contains(string(content), text)
	}
}

// copies are the files of the image: one, unless an earlier content is left.
func (o *objects) copies() []string {
	files, _ := filepath.Glob(o.h.Path(o.dir+"-0") + "/base-*")
	return files
}

func (o *objects) size() int64 {
	info, err := os.Stat(o.h.Path(o.dir + "-0/" + o.name))
	if err != nil {
		return 0
	}
	return info.Size()
}

// secrets are the host's secrets that name the objects: the one that is declared, and records of the provider. The lock
// of a killed run stays until the next run takes it over.
func (o *objects) secrets() (all []string) {
	files, _ := filepath.Glob(o.h.Path("/etc/libvirt/secrets") + "/*.xml")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil && strings.Contains(string(text), o.name) && !strings.Contains(string(text), "virtfleet:lock:") {
			all = append(all, string(text))
		}
	}
	return all
}

func (o *objects) hasSecret(text string) func() bool {
	return func() bool {
		return slices.ContainsFunc(o.secrets(), func(s string) bool { return strings.Contains(s, text) })
	}
}

// killed runs a command until it has begun its work on every object, and kills Terraform and the provider. Each object
// has a provider of its own, whose connection goes silent when the work on it has begun. Then the configuration is the
// same without these providers.
func (o *objects) killed(t *testing.T, all []object, command string, attributes func(object) string,
	begun func(object) func() bool,
) {
	t.Helper()
	gated := ""
	for _, is := range all {
		gate := o.l.Gate(t, o.h.Name, begun(is))
		var hosts []acctest.Host
		for _, h := range o.hosts {
			host := acctest.Host{Of: h}
			if h == o.h {
				host.URI, host.Settings = gate.URI(), fmt.Sprintf("ssh = { known_hosts_file = %q }", gate.KnownHostsFile)
			}
			hosts = append(hosts, host)
		}
		gated += acctest.Block{Lab: o.l, Settings: fmt.Sprintf("alias = %q", is.kind), Hosts: hosts}.String() +
			resource(is, "provider = virtfleet."+is.kind, attributes)
	}
	o.tf.Config(t, gated)
	run := o.tf.Start(t, command)
	for _, is := range all {
		lab.Await(t, command+" of the "+is.kind, func() bool {
			select {
			case <-run.Done():
				t.Fatalf("terraform %s ended early: %s", command, run.Output())
			default:
			}
			return begun(is)()
		})
	}
	if err := run.Kill(); err != nil {
		t.Fatal(err)
	}
	<-run.Done()
	o.configure(t, all, attributes)
}

func resource(is object, provider string, attributes func(object) string) string {
	return fmt.Sprintf("resource \"virtfleet_%s\" \"this\" {\n  %s\n  %s\n}\n", is.kind, provider, attributes(is))
}

// configure writes the configuration in which all hosts are reached directly.
func (o *objects) configure(t *testing.T, all []object, attributes func(object) string) {
	t.Helper()
	var hosts []acctest.Host
	for _, h := range o.hosts {
		hosts = append(hosts, acctest.Host{Of: h})
	}
	direct := acctest.Block{Lab: o.l, Hosts: hosts}.String()
	for _, is := range all {
		direct += resource(is, "", attributes)
	}
	o.tf.Config(t, direct)
}

// plans expects the plan to say what is left to do.
func (o *objects) plans(t *testing.T, all []object, want func(object) string) {
	t.Helper()
	actions := o.tf.Actions(t)
	for _, is := range all {
		if got := actions["virtfleet_"+is.kind+".this"]; got != want(is) {
			t.Errorf("the plan for the %s is %q, not %q", is.kind, got, want(is))
		}
	}
}

// complete expects what has does, and that no record of a creation is left.
func (o *objects) complete(t *testing.T, content, value string) {
	t.Helper()
	// One is declared, and one says that the pool is shared.
	if all := o.secrets(); len(all) != 2 {
		t.Errorf("the host has the secrets %v", all)
	}
	o.has(t, content, value)
}

// has expects that nothing is left to do, that the network and the pool are active and start with the host, that the
// only copy of the image has the content, and that the secret has that value.
func (o *objects) has(t *testing.T, content, value string) {
	t.Helper()
	if files := o.copies(); len(files) != 1 {
		t.Errorf("the copies of the image are %v", files)
	} else if data, err := os.ReadFile(files[0]); !bytes.Equal(data, bytes.Repeat([]byte(content), 1<<18)) {
		t.Errorf("the copy of the image has another content: %v", err)
	}
	for command, active := range map[string]string{"net-info": "Active: yes", "pool-info": "State: running"} {
		out := o.l.Virsh(t, o.h.Name, command, o.name)
		for _, want := range []string{active, "Autostart: yes"} {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
				t.Errorf("%s of host %s lacks %q: %s", command, o.h.Name, want, out)
			}
		}
	}
	o.l.Virsh(t, o.h.Name, "nwfilter-dumpxml", o.name)
	attributes, _ := o.tf.State(t, "virtfleet_secret.this")
	if got := o.l.Virsh(t, o.h.Name, "secret-get-value", "--plain", fmt.Sprint(attributes["id"])); got != value {
		t.Errorf("the secret has another value")
	}
	if out, empty := o.tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
}

// TestAccFaults_objectsKilled: Terraform and the provider are killed in the middle of creating, updating and destroying
// a network, a filter, a reservation, a pool, a volume, an image and a secret. The next plan says what is left to do,
// and the next apply does it: there is one of each object, none is half updated, and none is left when they are
// destroyed. The copy in the volume, of which a part may be missing, is made again, and the image is complete.
func TestAccFaults_objectsKilled(t *testing.T) {
	t.Parallel()
	o, all := newObjects(t, "10.219.11", "kvm1")
	created, updated := func(is object) string { return is.created }, func(is object) string { return is.updated }

	o.killed(t, all, "apply", created, func(is object) func() bool { return is.made })
	uuid := o.l.Virsh(t, o.h.Name, "net-uuid", o.name)
	o.l.Run(t, o.h.Name, "dd", "if=/dev/zero", "of="+o.dir+"-0/"+o.name, "bs=1M", "count=1", "conv=notrunc")
	o.plans(t, all, func(object) string { return "create" })
	o.tf.Run(t, "apply")
	if got := o.l.Virsh(t, o.h.Name, "net-uuid", o.name); got != uuid {
		t.Errorf("the network is %s, not %s", got, uuid)
	}
	o.l.Run(t, o.h.Name, "cmp", o.dir+"-0/seed", o.dir+"-0/"+o.name)
	o.complete(t, "old", "hush")

	o.killed(t, all, "apply", updated, func(is object) func() bool { return is.changed })
	o.plans(t, all, func(is object) string { return is.afterUpdate })
	o.tf.Run(t, "apply")
	o.l.Run(t, o.h.Name, "cmp", "--bytes=4MiB", o.dir+"-0/seed", o.dir+"-0/"+o.name)
	for look, want := range map[string]string{
		"net-dumpxml " + o.name: "new.test", "nwfilter-dumpxml " + o.name: "accept", "pool-dumpxml " + o.name: o.dir + "-2<",
		"net-dumpxml " + o.name + "-0": "10.219.11.8", "vol-info " + o.name + " " + o.name + "-0": "5.00 MiB",
	} {
		if out := o.l.Virsh(t, o.h.Name, strings.Fields(look)...); !strings.Contains(out, want) {
			t.Errorf("%s lacks %s: %s", look, want, out)
		}
	}
	o.complete(t, "new", "hush now")

	o.killed(t, all, "destroy", updated, func(is object) func() bool { return is.removed })
	o.plans(t, all, func(is object) string { return is.afterDestroy })
	o.tf.Run(t, "destroy")
	for _, is := range all {
		if !is.removed() {
			t.Errorf("the host still has the %s", is.kind)
		}
	}
	for _, list := range []string{"net-list --all", "pool-list --all", "nwfilter-list"} {
		out := o.l.Virsh(t, o.h.Name, strings.Fields(list)...)
		if strings.Contains(strings.ReplaceAll(out, o.name+"-0 ", ""), o.name) {
			t.Errorf("%s: the host still has %s", list, out)
		}
	}
	if all := o.secrets(); len(all) > 0 {
		t.Errorf("the host still has the secrets %v", all)
	}
}
