package lab

import "testing"

// The home directory's path is about as long as people's: libvirt makes the sockets of a session below it. The files
// are mounts, which can be written to and not be replaced.
const addUser = `set -e
name=$1 id=4242
shift
while getent passwd "$id" >/dev/null; do
	id=$((id + 1))
done
home=/srv/home-$name
echo "$name:x:$id:$id::$home:/bin/sh" >>/etc/passwd
echo "$name:x:$id:" >>/etc/group
for group; do
	groups=$(sed -E "s/^($group:.*:)(.+)/\\1\\2,$name/; s/^($group:.*:)$/\\1$name/" /etc/group)
	echo "$groups" >/etc/group
done
install -d -m 700 -o "$id" -g "$id" "$home"
`

// User is an account without privileges on a host.
type User struct {
	lab  *Lab
	host *Host
	name string
}

// AddUser gives a host that StartHost made an ordinary user, who logs in with the lab's key, and no other host. The
// user is also in the groups.
func (l *Lab) AddUser(t testing.TB, h *Host, name string, groups ...string) User {
	t.Helper()
	if !h.own {
		t.Fatalf("host %s is shared with other tests: add a user to one from StartHost", h.Name)
	}
	l.Run(t, h.Name, "sh", append([]string{"-c", addUser, "sh", name}, groups...)...)
	return User{lab: l, host: h, name: name}
}

// SessionURI leads to the user's own libvirt over SSH.
func (u User) SessionURI() string { return "qemu+ssh://" + u.name + "@" + u.host.Address + "/session" }

// Virsh runs virsh on the user's own libvirt and returns what it printed.
func (u User) Virsh(t testing.TB, args ...string) string {
	t.Helper()
	return u.lab.Run(t, u.host.Name, "setpriv", u.args(append([]string{"--connect", "qemu:///session"}, args...)...)...)
}

// args are those of setpriv for the user's virsh.
func (u User) args(virsh ...string) []string {
	return append([]string{
		"--reuid", u.name, "--regid", u.name, "--init-groups", "env", "HOME=/srv/home-" + u.name, "virsh",
	}, virsh...)
}
