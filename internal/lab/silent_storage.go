package lab

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// SilenceDirectory mounts a file system on a directory of the host that answers nothing, as NFS does while its server
// is down: programs that look into the directory wait. It lasts until answer is called, or the test ends. Programs that
// wait then get an error, and the directory is as before.
func (h *Host) SilenceDirectory(t testing.TB, dir string) (answer func()) {
	t.Helper()
	ctx, cancel := stepContext(t)
	defer cancel()
	// The kernel waits for whoever has the file open to answer.
	server, err := h.Run(ctx, "sh", "-c", fmt.Sprintf("exec 3<>/dev/fuse; mount -i -t fuse "+
		"-o fd=3,rootmode=40000,user_id=0,group_id=0,allow_other silent %s && "+
		"{ sleep 1d >/dev/null 2>&1 & echo $!; }", dir))
	if err != nil {
		t.Fatal(err)
	}
	over := false
	end := func(ctx context.Context) error {
		if over {
			return nil
		}
		over = true
		_, err := h.Run(ctx, "sh", "-c", fmt.Sprintf("kill %s; umount -l %s", strings.TrimSpace(server), dir))
		return err
	}
	cleanup(t, "ending the silence of "+dir, end)
	return func() {
		t.Helper()
		ctx, cancel := stepContext(t)
		defer cancel()
		if err := end(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
