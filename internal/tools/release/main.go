// Command release builds what .goreleaser.yml says, without a tag, a signature or an upload: release <folder for it>.
// goreleaser itself is too large to be built with every test, see release-check.sh. What this doesn't know of that file
// is an error, so that the file can't say what was never tried.
package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// config is .goreleaser.yml as far as it is used.
type config struct {
	Version     int
	ProjectName string `yaml:"project_name"`
	Builds      []build
	Archives    []struct {
		Formats      []string
		NameTemplate string `yaml:"name_template"`
	}
	SBOMs []struct {
		Artifacts string
		Documents []string
		Cmd       string
		Args      []string
	} `yaml:"sboms"`
	Checksum struct {
		NameTemplate string `yaml:"name_template"`
		Algorithm    string
		ExtraFiles   []extraFile `yaml:"extra_files"`
	}
	Signs   []any
	Release struct {
		ExtraFiles []extraFile `yaml:"extra_files"`
	}
	Changelog any
}

type build struct {
	ID                        string
	Goos, Goarch              []string
	Env, Tags, Flags, Ldflags []string
	ModTimestamp              string `yaml:"mod_timestamp"`
	Binary                    string
}

type extraFile struct {
	Glob         string
	NameTemplate string `yaml:"name_template"`
}

// names are what templates refer to.
type names struct {
	ProjectName, Version, Os, Arch, CommitTimestamp string
	Env                                             map[string]string
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: release <folder for what is built>")
	}
	if err := release(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func release(dist string) error {
	text, err := os.ReadFile(".goreleaser.yml")
	if err != nil {
		return err
	}
	var c config
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil {
		return fmt.Errorf(".goreleaser.yml: %w", err)
	}
	if c.Version != 2 || len(c.Builds) == 0 || len(c.Archives) != 1 || len(c.SBOMs) != 1 || len(c.Signs) == 0 {
		return errors.New(".goreleaser.yml: want version 2, builds, one kind of archives, one of SBOMs, and a signature")
	}
	var made []string
	for _, b := range c.Builds {
		files, err := c.one(b, dist)
		if err != nil {
			return fmt.Errorf("%s: %w", b.ID, err)
		}
		made = append(made, files...)
	}
	n := names{ProjectName: c.ProjectName, Version: "0.0.0"}
	for _, extra := range c.Checksum.ExtraFiles {
		data, err := os.ReadFile(extra.Glob)
		if err != nil {
			return err
		}
		name, err := n.expand(extra.NameTemplate)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dist, name), data, 0o644); err != nil {
			return err
		}
		made = append(made, name)
	}
	return c.sums(n, dist, made)
}

// one builds for one platform, if there is a C compiler for it, and returns the names of the files.
func (c config) one(b build, dist string) ([]string, error) {
	n := names{ProjectName: c.ProjectName, Version: "0.0.0", Os: b.Goos[0], Arch: b.Goarch[0]}
	for _, v := range b.Env {
		if compiler, is := strings.CutPrefix(v, "CC="); is {
			if _, err := exec.LookPath(compiler); err != nil {
				fmt.Printf("%s: not built, there is no %s\n", b.ID, compiler)
				return nil, nil
			}
		}
	}
	binary, err := n.expand(b.Binary)
	if err != nil {
		return nil, err
	}
	ldflags, err := n.expand(strings.Join(b.Ldflags, " "))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(dist, b.ID)
	args := append([]string{"build", "-tags", strings.Join(b.Tags, ",")}, b.Flags...)
	cmd := exec.Command("go", append(args, "-ldflags", ldflags, "-o", filepath.Join(dir, binary), ".")...)
	cmd.Env = append(append(os.Environ(), b.Env...), "GOOS="+n.Os, "GOARCH="+n.Arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	archive, err := n.expand(c.Archives[0].NameTemplate)
	if err != nil {
		return nil, err
	}
	archive += "." + c.Archives[0].Formats[0]
	if err := pack(filepath.Join(dist, archive), filepath.Join(dir, binary), "LICENSE", "README.md", "CHANGELOG.md"); err != nil {
		return nil, err
	}
	document, err := c.bill(n, dist, filepath.Join(b.ID, binary))
	return []string{archive, document}, err
}

// bill writes the bill of materials of a program. As goreleaser's, its command runs in the folder of what is built.
func (c config) bill(n names, dist, program string) (string, error) {
	s := c.SBOMs[0]
	document, err := n.expand(s.Documents[0])
	if err != nil {
		return "", err
	}
	args := make([]string, len(s.Args))
	for i, arg := range s.Args {
		args[i] = strings.NewReplacer("${artifact}", program, "${document}", document).Replace(arg)
	}
	cmd := exec.Command(s.Cmd, args...)
	cmd.Dir = dist
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("bill of materials: %w: %s", err, out)
	}
	return document, nil
}

// pack makes an archive with the files that goreleaser puts into it.
func pack(archive string, files ...string) (err error) {
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	w := zip.NewWriter(out)
	defer func() { err = errors.Join(err, w.Close(), out.Close()) }()
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: filepath.Base(name), Method: zip.Deflate}
		if len(data) > 1<<20 {
			header.SetMode(0o755)
		}
		f, err := w.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// sums writes the checksums.
func (c config) sums(n names, dist string, files []string) error {
	var b strings.Builder
	for _, name := range files {
		file, err := os.Open(filepath.Join(dist, name))
		if err != nil {
			return err
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, file); err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sum.Sum(nil), name)
	}
	name, err := n.expand(c.Checksum.NameTemplate)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dist, name), []byte(b.String()), 0o644)
}

func (n names) expand(text string) (string, error) {
	t, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, n)
	return b.String(), err
}
