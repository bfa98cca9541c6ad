// A document of MongoDB's protocol, as articles have it: findAndModify with upsert takes it if it is
// not there or its time is over; else the worker asks again each 10 ms. No renewal.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"lockkeeper.bench/beside/turns"
)

const (
	lease = 30 * time.Second
	poll  = 10 * time.Millisecond
)

var workers atomic.Int64

type lock struct {
	held  *mongo.Collection
	owner string
}

func (l *lock) Lock(name string) error {
	for {
		now := time.Now()
		filter := bson.M{"_id": name, "until": bson.M{"$lt": now}}
		update := bson.M{"$set": bson.M{"owner": l.owner, "until": now.Add(lease)}}
		err := l.held.FindOneAndUpdate(context.Background(), filter, update,
			options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Err()
		if !mongo.IsDuplicateKeyError(err) {
			return err
		}
		time.Sleep(poll)
	}
}

func (l *lock) Unlock(name string) (bool, error) {
	gone, err := l.held.DeleteOne(context.Background(), bson.M{"_id": name, "owner": l.owner})
	return err == nil && gone.DeletedCount == 1, err
}

func main() {
	turns.Main(func(url, _ string) (func() (turns.Lock, error), error) {
		client, err := mongo.Connect(options.Client().ApplyURI(url).SetMaxPoolSize(128))
		if err != nil {
			return nil, err
		}
		held := client.Database("bench").Collection("held")
		return func() (turns.Lock, error) {
			return &lock{held, fmt.Sprintf("%d-%d", os.Getpid(), workers.Add(1))}, nil
		}, nil
	})
}
