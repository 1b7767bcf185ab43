// Command containerfile-lint asks of a Containerfile what `docker build --check` asks, with BuildKit's own code.
//
//	containerfile-lint FILE...
//
// Exit code 1 and one line for each finding. No registry is asked: of a base image nothing is known but its name.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/solver/pb"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

var platform = ocispecs.Platform{OS: "linux", Architecture: "amd64"}

type nothingKnown struct{}

func (nothingKnown) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	return ref, "", []byte(`{"architecture": "amd64", "os": "linux"}`), nil
}

func main() {
	code := 0
	for _, file := range os.Args[1:] {
		text, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(4)
		}
		options := dockerfile2llb.ConvertOpt{
			MetaResolver:   nothingKnown{},
			SourceMap:      &llb.SourceMap{Definition: &llb.Definition{}, Filename: file, Language: "Dockerfile", Data: text},
			TargetPlatform: &platform,
		}
		found, err := dockerfile2llb.DockerfileLint(context.Background(), text, options)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(4)
		}
		if found.Error != nil {
			fmt.Printf("%s: %s\n", file, found.Error.Message)
			code = 1
		}
		for _, one := range found.Warnings {
			fmt.Printf("%s:%d: %s: %s\n", file, line(one.Location), one.RuleName, one.Detail)
			code = 1
		}
	}
	os.Exit(code)
}

func line(location *pb.Location) int32 {
	for _, one := range location.GetRanges() {
		return one.GetStart().GetLine()
	}
	return 0
}
