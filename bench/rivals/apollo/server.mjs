// Apollo Server on its standalone server: relations by `dataloader`, made anew for each request.

import { readFileSync } from 'node:fs'
import { ApolloServer } from '@apollo/server'
import { startStandaloneServer } from '@apollo/server/standalone'
import DataLoader from 'dataloader'
import { GraphQLScalarType } from 'graphql'
import { MongoClient } from 'mongodb'
import { openDocuments, serializeDate } from '../documents.mjs'

const client = await MongoClient.connect(process.env.MONGO_URI)
const documents = openDocuments(client.db('bench'))
const id = (document) => document._id
const cacheKeyFn = (key) => `${key.id}:${key.limit}`

const resolvers = {
  DateTime: new GraphQLScalarType({ name: 'DateTime', serialize: serializeDate }),
  Query: {
    post: (_, args) => documents.findPost(args.id),
    posts: (_, args) => documents.findPosts(args.limit)
  },
  Post: {
    id,
    author: (post, _, { loaders }) => loaders.users.load(post.authorId),
    comments: (post, { limit }, { loaders }) => loaders.comments.load({ id: post._id, limit })
  },
  User: {
    id,
    posts: (user, { limit }, { loaders }) => loaders.postsOf.load({ id: user._id, limit })
  },
  Comment: { id }
}

const createLoaders = () => ({
  users: new DataLoader(documents.loadUsers),
  comments: new DataLoader(documents.loadComments, { cacheKeyFn }),
  postsOf: new DataLoader(documents.loadPostsOf, { cacheKeyFn })
})

const server = new ApolloServer({
  typeDefs: readFileSync(new URL('../schema.graphql', import.meta.url), 'utf8'),
  resolvers
})
await startStandaloneServer(server, {
  listen: { host: '127.0.0.1', port: Number(process.env.PORT) },
  context: async () => ({ loaders: createLoaders() })
})
