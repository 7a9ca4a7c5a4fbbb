package firstboot

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
)

// The layout of an image with one directory, in sectors (ECMA-119). The primary volume has Rock Ridge names, the
// supplementary volume Joliet names: Linux reads either, Windows the latter.
const (
	primaryVolume     = 16 + iota // The first 16 sectors are reserved for the system.
	jolietVolume                  // 17
	volumeTerminator              // 18
	primaryPathLittle             // 19
	primaryPathBig                // 20
	jolietPathLittle              // 21
	jolietPathBig                 // 22
	primaryDirectory              // 23
	jolietDirectory               // 24
	firstFile                     // 25
)

const (
	sectorBytes    = 2048
	pathTableBytes = 10 // with only the root
	flagDirectory  = 2
)

// The modes in Rock Ridge: only the guest's root may read the files, which may hold secrets.
const (
	modeDirectory = 0o040500
	modeFile      = 0o100400
)

// isoFile is a file of the image.
type isoFile struct {
	shortName string // in the primary volume: at most 8 of A-Z, "." and ";1"
	name      string // the real name
	content   []byte
}

// sectors returns the number of sectors of the content.
func (f isoFile) sectors() int { return (len(f.content) + sectorBytes - 1) / sectorBytes }

// isoSize returns the length in bytes of the image with these files.
func isoSize(files []isoFile) int {
	sectors := firstFile
	for _, f := range files {
		sectors += f.sectors()
	}
	return sectors * sectorBytes
}

// isoImage creates an image with these files in its root. They must be ordered by both of their names, and fit into one
// sector of directory. Nothing in the image depends on the time. The libraries that write such images (go-diskfs,
// kdomanski/iso9660) gather the files in a directory first: they may hold secrets, so here they stay in memory.
func isoImage(label string, files []isoFile) []byte {
	image := make([]byte, isoSize(files))
	at := func(sector int) []byte { return image[sector*sectorBytes:] }

	writeVolume(at(primaryVolume), volume{
		kind: 1, text: ascii, label: label, sectors: len(image) / sectorBytes,
		pathLittle: primaryPathLittle, pathBig: primaryPathBig, directory: primaryDirectory,
	})
	writeVolume(at(jolietVolume), volume{
		kind: 2, escape: "%/E", text: ucs2, label: label, sectors: len(image) / sectorBytes,
		pathLittle: jolietPathLittle, pathBig: jolietPathBig, directory: jolietDirectory,
	})
	copy(at(volumeTerminator), "\xffCD001\x01")
	writePathTable(at(primaryPathLittle), binary.LittleEndian, primaryDirectory)
	writePathTable(at(primaryPathBig), binary.BigEndian, primaryDirectory)
	writePathTable(at(jolietPathLittle), binary.LittleEndian, jolietDirectory)
	writePathTable(at(jolietPathBig), binary.BigEndian, jolietDirectory)

	var primary, joliet bytes.Buffer
	primary.Write(directoryRecord(primaryDirectory, sectorBytes, flagDirectory, "\x00",
		suspIndicator, rockRidgeMode(modeDirectory, 2), rockRidgeReference))
	primary.Write(directoryRecord(primaryDirectory, sectorBytes, flagDirectory, "\x01", rockRidgeMode(modeDirectory, 2)))
	joliet.Write(directoryRecord(jolietDirectory, sectorBytes, flagDirectory, "\x00"))
	joliet.Write(directoryRecord(jolietDirectory, sectorBytes, flagDirectory, "\x01"))
	sector := firstFile
	for _, f := range files {
		primary.Write(directoryRecord(sector, len(f.content), 0, f.shortName,
			rockRidgeMode(modeFile, 1), rockRidgeName(f.name)))
		joliet.Write(directoryRecord(sector, len(f.content), 0, string(ucs2(f.name))))
		copy(at(sector), f.content)
		sector += f.sectors()
	}
	copy(at(primaryDirectory), primary.Bytes())
	copy(at(jolietDirectory), joliet.Bytes())
	return image
}

// volume is the content of a volume descriptor.
type volume struct {
	kind                           byte
	escape                         string // the character set; "" for the primary volume
	text                           func(string) []byte
	label                          string
	sectors                        int
	pathLittle, pathBig, directory int
}

// writeVolume writes a primary or supplementary volume descriptor.
func writeVolume(to []byte, v volume) {
	to[0] = v.kind
	copy(to[1:], "CD001\x01")
	field := func(from, length int, text string) {
		blank := v.text(" ")
		for i := from; i+len(blank) <= from+length; i += len(blank) {
			copy(to[i:], blank)
		}
		copy(to[from:from+length], v.text(text))
	}
	field(8, 32, "")
	field(40, 32, v.label)
	copy(to[80:], both32(v.sectors))
	copy(to[88:], v.escape)
	copy(to[120:], both16(1)) // volumes in the set
	copy(to[124:], both16(1)) // the number of this volume
	copy(to[128:], both16(sectorBytes))
	copy(to[132:], both32(pathTableBytes))
	binary.LittleEndian.PutUint32(to[140:], uint32(v.pathLittle))
	binary.BigEndian.PutUint32(to[148:], uint32(v.pathBig))
	copy(to[156:], directoryRecord(v.directory, sectorBytes, flagDirectory, "\x00"))
	for _, text := range []struct{ from, length int }{
		{190, 128}, {318, 128}, {446, 128}, {574, 128}, {702, 37}, {739, 37}, {776, 37},
	} {
		field(text.from, text.length, "")
	}
	for from := 813; from < 881; from += 17 {
		copy(to[from:], "0000000000000000\x00") // a time that isn't specified
	}
	to[881] = 1 // the structure's version
}

// writePathTable writes a path table with only the root.
func writePathTable(to []byte, order binary.ByteOrder, directory int) {
	to[0] = 1 // the length of the name
	order.PutUint32(to[2:], uint32(directory))
	order.PutUint16(to[6:], 1)
}

// directoryRecord returns the entry of a file or directory, with Rock Ridge's additions.
func directoryRecord(sector, length int, flags byte, name string, system ...[]byte) []byte {
	record := []byte{0, 0} // the record's length, and that of its extended attributes
	record = append(record, both32(sector)...)
	record = append(record, both32(length)...)
	record = append(record, 100, 1, 1, 0, 0, 0, 0) // 2000-01-01, for everything
	record = append(record, flags, 0, 0)           // no interleaving
	record = append(record, both16(1)...)          // the volume's number
	record = append(record, byte(len(name)))
	record = append(record, name...)
	if len(record)%2 == 1 {
		record = append(record, 0)
	}
	for _, entry := range system {
		record = append(record, entry...)
	}
	if len(record)%2 == 1 {
		record = append(record, 0)
	}
	record[0] = byte(len(record))
	return record
}

// suspIndicator says that directory records have system use entries (SUSP "SP").
var suspIndicator = []byte{'S', 'P', 7, 1, 0xbe, 0xef, 0}

// rockRidgeReference names the extension (SUSP "ER"), without a description.
var rockRidgeReference = []byte("ER\x12\x01\x0a\x00\x00\x01RRIP_1991A")

// rockRidgeMode returns mode, links, owner and group (RRIP "PX").
func rockRidgeMode(mode, links int) []byte {
	entry := []byte{'P', 'X', 36, 1}
	for _, value := range []int{mode, links, 0, 0} {
		entry = append(entry, both32(value)...)
	}
	return entry
}

// rockRidgeName returns the real name (RRIP "NM").
func rockRidgeName(name string) []byte {
	return append([]byte{'N', 'M', byte(5 + len(name)), 1, 0}, name...)
}

// both32 returns a number in both byte orders.
func both32(n int) []byte {
	return binary.BigEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(n)), uint32(n))
}

// both16 returns a number in both byte orders.
func both16(n int) []byte {
	return binary.BigEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, uint16(n)), uint16(n))
}

func ascii(text string) []byte { return []byte(text) }

// ucs2 returns a text in Joliet's character set.
func ucs2(text string) []byte {
	var encoded []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		encoded = binary.BigEndian.AppendUint16(encoded, unit)
	}
	return encoded
}
