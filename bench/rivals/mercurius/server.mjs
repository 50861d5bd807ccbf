// Mercurius on Fastify: queries compiled after their first execution, relations by its loaders.
//
// The loaders do not keep what they have read: as its documentation says, that would turn every
// parent into a key, and a batch asks for each key once anyway.

import { readFileSync } from 'node:fs'
import Fastify from 'fastify'
import { GraphQLScalarType } from 'graphql'
import mercurius from 'mercurius'
import { MongoClient } from 'mongodb'
import { openDocuments, serializeDate } from '../documents.mjs'

const client = await MongoClient.connect(process.env.MONGO_URI)
const documents = openDocuments(client.db('bench'))
const id = (document) => document._id
const under = ({ obj, params }) => ({ id: obj._id, limit: params.limit })
const opts = { cache: false }

const resolvers = {
  DateTime: new GraphQLScalarType({ name: 'DateTime', serialize: serializeDate }),
  Query: {
    post: (_, args) => documents.findPost(args.id),
    posts: (_, args) => documents.findPosts(args.limit)
  },
  Post: { id },
  User: { id },
  Comment: { id }
}

const loaders = {
  Post: {
    author: { loader: (queries) => documents.loadUsers(queries.map(({ obj }) => obj.authorId)), opts },
    comments: { loader: (queries) => documents.loadComments(queries.map(under)), opts }
  },
  User: {
    posts: { loader: (queries) => documents.loadPostsOf(queries.map(under)), opts }
  }
}

const app = Fastify({ logger: false })
app.register(mercurius, {
  schema: readFileSync(new URL('../schema.graphql', import.meta.url), 'utf8'),
  resolvers,
  loaders,
  jit: 1,
  path: '/graphql/bench'
})
await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT) })
