package virtualmachine_test

import (
	"archive/zip"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// encoded is what may be text in another guise, as Terraform writes what providers keep for themselves.
var encoded = regexp.MustCompile(`[A-Za-z0-9+/]{16,}={0,2}`)

// plainText adds to a text what is encoded in it, to that depth.
func plainText(text string, depth int) string {
	if depth == 0 {
		return text
	}
	var inside strings.Builder
	for _, s := range encoded.FindAllString(text, -1) {
		if decoded, err := base64.StdEncoding.DecodeString(s); err == nil {
			inside.Write(decoded)
			inside.WriteString("\n")
		}
	}
	return text + "\n" + plainText(inside.String(), depth-1)
}

// planFileContents is all that a plan's file has.
func planFileContents(t *testing.T, file string) string {
	t.Helper()
	archive, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	var all strings.Builder
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&all, r); err != nil { //nolint:gosec // Terraform made the file.
			t.Fatal(err)
		}
		_ = r.Close()
	}
	return all.String()
}

// filesBelow is what is in a directory and those in it: each file's content.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		files[file] = ""
		if entry.Type().IsRegular() {
			data, err := os.ReadFile(file)
			files[file] = string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestAccVirtualMachine_secretsStaySecret: neither what opens the hosts nor what a definition keeps from others gets
// into states, saved plans, outputs, logs or temporary files; and a definition that was changed still has it. A medium
// belongs to one VM: it stays when another with the same content goes.
func TestAccVirtualMachine_secretsStaySecret(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	tf := acctest.NewCLI(t)
	const passphrase, password, login = "hush hush my key", "vnc7h2kq", "login-4wq9zt"
	key := filepath.Join(tf.Dir, "key")
	private, err := os.ReadFile(l.PrivateKeyFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, private, 0o600); err != nil {
		t.Fatal(err)
	}
	keygen := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-p", "-a", "1", "-N", passphrase, "-f", key)
	if out, err := keygen.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	locked, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tf.Dir, "passphrase"), []byte(passphrase), 0o600); err != nil {
		t.Fatal(err)
	}
	seed := []byte("#cloud-config\npassword: " + login + "\n")
	if err := os.WriteFile(filepath.Join(tf.Dir, "seed"), seed, 0o600); err != nil {
		t.Fatal(err)
	}
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">64</memory><os>
  <type arch="x86_64">hvm</type></os><devices><graphics type="vnc" passwd="%s"/></devices></domain>`, name, password))

	config := func(more hcl, others ...string) {
		tf.Config(t, fmt.Sprintf(`provider "virtfleet" {
  hosts = { kvm1 = { uri = %q } }
  ssh = {
    private_key      = file("key")
    passphrase       = file("passphrase")
    known_hosts_file = %q
    config_file      = "none"
    agent            = false
  }
}
import {
  to = %s
  id = %q
}
`, l.Host("kvm1").URI(), l.KnownHostsFile(), address, name)+
			hcl{"name": quote(name), "run_strategy": quote("Halted")}.with(more).String()+strings.Join(others, ""))
	}
	twin := name + "-twin"
	l.RemoveDomain(t, twin)
	medium := hcl{"cloud_init": `{
    user_data_wo = file("seed"), user_data_wo_version = "1", pool = "default"
    meta_data = "local-hostname: one", instance_id = "i-1"
  }`}
	log, temporary := tf.Trace(), tf.TempDir(t)
	told := map[string]string{}
	for i, write := range []func(){
		func() { config(hcl{"labels": `{ app = "web" }`}) },
		func() {
			config(medium.with(hcl{"memory": `{ size = "96Mi" }`}),
				idleVM(l, twin).with(medium).with(hcl{"run_strategy": quote("Halted")}).named("twin"))
		},
	} {
		write()
		told[fmt.Sprint("plan ", i)] = tf.Run(t, "plan", "-out=planned")
		told[fmt.Sprint("saved plan ", i)] = plainText(planFileContents(t, filepath.Join(tf.Dir, "planned")), 2)
		told[fmt.Sprint("apply ", i)] = tf.Run(t, "apply", "planned")
		noChanges(t, tf)
	}
	complete := l.Virsh(t, "kvm1", "dumpxml", "--security-info", name)
	if err := contains(complete, "passwd='"+password+"'", "98304"); err != nil {
		t.Error(err)
	}
	hasSeed := func(vm string) map[string]string {
		t.Helper()
		files, _, err := seedIn(t, l, "kvm1", vm)
		if err != nil || files["user-data"] != string(seed) {
			t.Errorf("the medium of %s has %q: %v", vm, files, err)
		}
		return files
	}
	if one, other := hasSeed(name), hasSeed(twin); !maps.Equal(one, other) {
		t.Errorf("the media should be equal: %q, %q", one, other)
	}
	told["shown state"] = tf.Run(t, "show", "-json")
	for file := range filesBelow(t, temporary) {
		t.Errorf("before the destroy, %s is left in the directory for temporary files", file)
	}
	tf.Run(t, "destroy", "-target="+virtualmachine.TypeName+".twin")
	if err := acctest.CheckDestroyed(l, twin)(nil); err != nil {
		t.Error(err)
	}
	hasSeed(name)
	destroyAndCheck(t, l, tf, name)
	if left := l.Run(t, "kvm1", "ls", "/var/lib/libvirt/images"); strings.Contains(left, name) {
		t.Errorf("a medium is left: %s", left)
	}
	for file, content := range filesBelow(t, temporary) {
		t.Errorf("%s is left in the directory for temporary files", file)
		told[file] = plainText(content, 2)
	}
	for _, file := range []string{"terraform.tfstate", "terraform.tfstate.backup", filepath.Base(log)} {
		data, err := os.ReadFile(filepath.Join(tf.Dir, file))
		if err != nil {
			t.Fatal(err)
		}
		told[file] = plainText(string(data), 3)
	}
	if !strings.Contains(told[filepath.Base(log)], "provider.terraform-provider-virtfleet") ||
		!strings.Contains(told["saved plan 1"], virtualmachine.TypeName) {
		t.Fatal("the log lacks what the provider says, or the plan what is planned: nothing would be found in them")
	}
	secrets := append(strings.Split(strings.TrimSpace(string(locked)), "\n"), passphrase, password, login)
	for where, text := range told {
		for _, secret := range secrets {
			if !strings.HasPrefix(secret, "-----") && strings.Contains(text, secret) {
				t.Errorf("%s tells the secret %q", where, secret)
			}
		}
	}
}
