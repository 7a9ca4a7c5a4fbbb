package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
)

// ArrivingFiles is what a host records about a VM whose files a move copies there. The VM has a record of its own at
// the source. That is lost with the source, and then only this one tells a half copy from a disk.
type ArrivingFiles struct {
	VM    string    `json:"vm"`
	From  string    `json:"from"`
	Began time.Time `json:"began,omitzero"`
	Paths []string  `json:"paths"`
}

// ArrivalOf returns the record of the files with which the VM of that UUID arrives. It is written before the first of
// them is made, and removed when the VM has arrived or they are removed.
func ArrivalOf(uuid string) hostset.Creation { return hostset.Creation{Kind: "copies", Name: uuid} }

// ArrivingFiles returns what moves copy to a host that answered, or were copying there when they were interrupted, by
// the UUID of the VM. Unless fresh is set, it is read once for all who share the reading of the host.
func (a Reply) ArrivingFiles(ctx context.Context, fresh bool) (map[string]ArrivingFiles, error) {
	if fresh || a.View == nil || a.View.arriving == nil {
		return readArriving(ctx, a.Host)
	}

	return a.View.arriving.get(ctx, "", func(ctx context.Context) (map[string]ArrivingFiles, error) {
		return readArriving(ctx, a.Host)
	})
}

// readArriving asks a host. If nothing arrives there, that is one round trip.
func readArriving(ctx context.Context, h *Host) (map[string]ArrivingFiles, error) {
	prefix := ArrivalOf("").UsageID()

	ids, err := h.Conn.OwnSecretIDs(ctx, prefix)
	if errors.Is(err, ErrUnsupported) {
		return nil, nil // Without secrets there are no locks, and nothing moves to the host.
	}

	if err != nil {
		return nil, err
	}

	files := make(map[string]ArrivingFiles, len(ids))

	for _, id := range ids {
		uuid := strings.TrimPrefix(id, prefix)

		text, err := ArrivalOf(uuid).Begun(ctx, h.Conn)
		if err != nil {
			return nil, err
		}

		if text == "" {
			continue // It is over by now. Or its writer was killed before it wrote the value, and so made no file.
		}

		var f ArrivingFiles
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			return nil, fmt.Errorf("%w: the record %s of host %q can't be read: %w", ErrInvalid, id, h.Name, err)
		}

		files[uuid] = f
	}

	return files, nil
}

// Unfinished returns why the file at a path of the host is no disk for the VM of that UUID, "" if nothing says so, and
// what a user can do about it. The VM itself may have the files with which it arrives. The path may be another one than
// the recorded one, for example through a symbolic link: the host is asked for that, if it can compare files.
func (h *Host) Unfinished(
	ctx context.Context, arriving map[string]ArrivingFiles, file, uuid string,
) (why, remedy string) {
	for _, of := range slices.Sorted(maps.Keys(arriving)) {
		f := arriving[of]
		if of == uuid || !h.isAmong(ctx, file, f.Paths) {
			continue
		}

		return fmt.Sprintf("%s is not known to be whole: a move of VM %q from host %q to host %q, begun at %s, copies it or "+
				"was interrupted while it copied", file, f.VM, f.From, h.Name, f.Began.Format(time.RFC3339)),
			fmt.Sprintf("If the move is under way, wait for its end. If it was interrupted and host %q has the VM, bring that "+
				"host back without fenced: what changes the VM there next removes the copy. If the VM is lost, restore the file "+
				"from a backup, or remove it. Then remove the record on host %q: find the secret %s with \"virsh secret-list\", "+
				"and run \"virsh secret-undefine <UUID>\".", f.From, h.Name, ArrivalOf(of).UsageID())
	}

	return "", ""
}

// isAmong reports whether the file is one of those at the paths, as far as the host says.
func (h *Host) isAmong(ctx context.Context, file string, paths []string) bool {
	if slices.Contains(paths, path.Clean(file)) {
		return true
	}

	if h.Config.SameFile == nil || len(paths) == 0 || !path.IsAbs(file) {
		return false
	}

	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()

	// If the host can't compare all of them, the result has those that it can.
	same, _ := h.Config.SameFile(ctx, file, paths...)

	return len(same) > 0
}

// VerifyNoHalfCopy returns ErrBusy if a file of a host isn't known to be whole, because of a move that copies it there.
// It asks the host now. The file of a VM that has arrived is whole, also if the record of its move is still there.
func (inv *Inventory) VerifyNoHalfCopy(ctx context.Context, host, file string) error {
	h, err := inv.UsableHost(host)
	if err != nil {
		return err
	}

	arriving, err := readArriving(ctx, h)
	if err != nil {
		return err
	}

	maps.DeleteFunc(arriving, func(uuid string, _ ArrivingFiles) bool {
		vm, err := inv.FindNow(ctx, uuid, LastKnown{})

		return err == nil && vm.On == h && vm.PersistentSpec != nil && !vm.Migrating
	})

	if why, remedy := h.Unfinished(ctx, arriving, file, ""); why != "" {
		return &Error{Host: host, Kind: ErrBusy, Detail: why, Remedy: remedy, Next: Retry}
	}

	return nil
}
