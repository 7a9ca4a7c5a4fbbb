package lab

import (
	"fmt"
	"testing"
)

// The ids of the user that AddUser makes.
const userID = 4242

// The home directory's path is about as long as people's: libvirt makes the sockets of a session below it.
const addUser = `set -e
home=/run/home-$1
cp /etc/passwd /etc/group /run
echo "$1:x:$2:$2::$home:/bin/sh" >>/run/passwd
echo "$1:x:$2:" >>/run/group
mount --bind /run/passwd /etc/passwd
mount --bind /run/group /etc/group
install -d -m 700 -o "$2" -g "$2" "$home"
`

// User is an account without privileges on a host.
type User struct {
	lab  *Lab
	host *Host
	name string
}

// AddUser gives a host that StartHost made an ordinary user, who logs in with the lab's key, and no other host.
func (l *Lab) AddUser(t testing.TB, h *Host, name string) User {
	t.Helper()
	if !h.own {
		t.Fatalf("host %s is shared with other tests: add a user to one from StartHost", h.Name)
	}
	l.Run(t, h.Name, "sh", "-c", addUser, "sh", name, fmt.Sprint(userID))
	return User{lab: l, host: h, name: name}
}

// SessionURI leads to the user's own libvirt over SSH.
func (u User) SessionURI() string { return "qemu+ssh://" + u.name + "@" + u.host.Address + "/session" }

// Virsh runs virsh on the user's own libvirt and returns what it printed.
func (u User) Virsh(t testing.TB, args ...string) string {
	t.Helper()
	return u.lab.Run(t, u.host.Name, "setpriv", append([]string{
		"--reuid", fmt.Sprint(userID), "--regid", fmt.Sprint(userID), "--clear-groups",
		"env", "HOME=/run/home-" + u.name, "virsh", "--connect", "qemu:///session",
	}, args...)...)
}
