package ssh

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// checkConfigPermissions refuses an ssh_config that other users can write to, as ssh does: it can name commands.
func checkConfigPermissions(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if stat.Uid != 0 && int(stat.Uid) != os.Getuid() {
		return fmt.Errorf("it belongs to user %d: it has to belong to the user who runs virtfleet, or to root", stat.Uid)
	}
	writable := info.Mode().Perm() & 0o022
	if writable == 0o020 && isPrivateGroup(stat.Gid) {
		return nil
	}
	if writable != 0 {
		return fmt.Errorf("others may write to it (mode %04o): run chmod go-w %s", info.Mode().Perm(), shellQuote(path))
	}
	return nil
}

// isPrivateGroup reports whether a group is the user's own group of the same name. Distributions that create such a
// group for each user treat it like the user.
func isPrivateGroup(gid uint32) bool {
	u, err := user.Current()
	if err != nil || u.Gid != strconv.FormatUint(uint64(gid), 10) {
		return false
	}
	group, err := user.LookupGroupId(u.Gid)
	return err == nil && group.Name == u.Username
}

// keyPermissionProblem says why a private key that other users can read isn't used, as in ssh; "" for a key that is
// used.
func keyPermissionProblem(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm()&0o077 == 0 {
		return ""
	}
	return fmt.Sprintf("others may read the key (mode %04o), so it isn't used: run chmod 600 on it", info.Mode().Perm())
}
